#include "runtime/input_buffers.h"

#include <cstring>

#include "base/assert.h"
#include "base/error.h"

namespace nanovllm {
namespace {

constexpr size_t kAlignedWords = 16;  // 64 bytes
constexpr size_t kNumArrays = 14;

size_t aligned(size_t words) { return (words + kAlignedWords - 1) / kAlignedWords * kAlignedWords; }

size_t words_of(const BatchLimits& limits) {
  const size_t seqs = size_t(limits.max_num_seqs);
  return 3 * size_t(limits.max_num_tokens) + 4 * seqs + 1 + seqs * size_t(limits.max_blocks) +
         8 * size_t(limits.max_num_sampled) + kNumArrays * kAlignedWords;
}

}  // namespace

InputBuffers::InputBuffers(const Device& device, const BatchLimits& limits)
    : device_(device),
      staging_(words_of(limits)),
      buffer_(device, words_of(limits) * sizeof(int32_t), "step input") {}

template <class T>
Tensor InputBuffers::put(const std::vector<T>& array, std::initializer_list<int64_t> shape) {
  static_assert(sizeof(T) == sizeof(int32_t));
  ASSERT(used_ + array.size() <= staging_.size());
  if (!array.empty()) std::memcpy(staging_.data() + used_, array.data(), array.size() * sizeof(T));
  const Tensor tensor = Tensor::view(static_cast<int32_t*>(buffer_.data()) + used_,
                                     std::is_same_v<T, float> ? DType::kF32 : DType::kI32, shape);
  ASSERT(tensor.num_elements() == int64_t(array.size()));
  used_ = aligned(used_ + array.size());
  return tensor;
}

void InputBuffers::upload(const Batch& b) {
  used_ = 0;
  const int64_t tokens = b.num_tokens(), seqs = b.num_seqs(), rows = b.num_sampled();
  input_.token_ids = put(b.token_ids, {tokens});
  input_.positions = put(b.positions, {tokens});
  input_.attn.num_singles = 0;
  for (size_t i = 0; i < size_t(seqs); ++i)
    input_.attn.num_singles += b.cu_seqlens_q[i + 1] - b.cu_seqlens_q[i] == 1;
  input_.attn.slot_mapping = put(b.slot_mapping, {tokens});
  input_.attn.cu_seqlens_q = put(b.cu_seqlens_q, {seqs + 1});
  input_.attn.seq_lens = put(b.seq_lens, {seqs});
  input_.attn.block_table = put(b.block_table, {seqs, b.max_blocks});
  block_copies_ = put(b.block_copies, {b.num_block_copies(), 2});
  input_.logits_indices = put(b.logits_indices, {rows});
  sample_.temperature = put(b.temperature, {rows});
  sample_.top_k = put(b.top_k, {rows});
  sample_.top_p = put(b.top_p, {rows});
  sample_.seeds = put(b.seeds, {rows, 2});
  sample_.positions = put(b.sample_positions, {rows});
  sample_.sample_indices = put(b.sample_indices, {rows});
  device_.upload(buffer_.data(), staging_.data(), used_ * sizeof(int32_t));
}

}  // namespace nanovllm
