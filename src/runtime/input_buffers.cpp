#include "runtime/input_buffers.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <type_traits>

#include "base/assert.h"
#include "base/error.h"

namespace nanovllm {
namespace {

constexpr size_t kAlignedWords = 16;  // 64 bytes
constexpr size_t kNumArrays = 16;

size_t aligned(size_t words) { return (words + kAlignedWords - 1) / kAlignedWords * kAlignedWords; }

size_t words_of(const BatchLimits& limits) {
  const size_t seqs = size_t(limits.max_num_seqs);
  return 3 * size_t(limits.max_num_tokens) + seqs + 4 * seqs + 1 + seqs * size_t(limits.max_blocks) +
         9 * size_t(limits.max_num_sampled) + kNumArrays * kAlignedWords;
}

}  // namespace

size_t InputBuffers::bytes(const BatchLimits& limits) { return words_of(limits) * sizeof(int32_t); }

InputBuffers::InputBuffers(const OpTable& ops, void* state, const BatchLimits& limits)
    : queue_(*ops.queue),
      state_(state),
      limits_(limits),
      staging_{{ops.device->staging(), bytes(limits), "step input"},
               {ops.device->staging(), bytes(limits), "step input"}},
      buffer_(*ops.device, bytes(limits), "step input") {}

// What `array` lacks of the shape is padding, if there is one.
template <class T>
Tensor InputBuffers::put(const std::vector<T>& array, std::initializer_list<int64_t> shape,
                         std::type_identity_t<std::optional<T>> padding) {
  static_assert(sizeof(T) == sizeof(int32_t));
  const Tensor tensor = Tensor::view(static_cast<int32_t*>(buffer_.data()) + used_,
                                     std::is_same_v<T, float> ? DType::kF32 : DType::kI32, shape);
  const size_t count = size_t(tensor.num_elements());
  ASSERT(tensor.num_elements() == int64_t(array.size()) || (padding && array.size() < count));
  ASSERT((used_ + count) * sizeof(int32_t) <= buffer_.bytes());
  T* to = reinterpret_cast<T*>(staging() + used_);
  std::fill(std::copy(array.begin(), array.end(), to), to + count, padding.value_or(T{}));
  used_ = aligned(used_ + count);
  return tensor;
}

// 0, 1, …, count - 1
Tensor InputBuffers::put_range(int64_t count) {
  int32_t* begin = staging() + used_;
  const Tensor tensor = put(std::vector<int32_t>{}, {count}, 0);
  std::iota(begin, begin + count, 0);
  return tensor;
}

void InputBuffers::put_sampling(const Batch& b, int64_t rows) {
  const bool padded = rows > b.num_sampled();
  const auto if_padded = [&](auto value) { return padded ? std::optional(value) : std::nullopt; };
  sample_.temperature = put(b.temperature, {rows}, if_padded(0.0f));
  sample_.top_k = put(b.top_k, {rows}, if_padded(0));
  sample_.top_p = put(b.top_p, {rows}, if_padded(1.0f));
  sample_.min_p = put(b.min_p, {rows}, if_padded(0.0f));
  sample_.seeds = put(b.seeds, {rows, 2}, if_padded(0));
  sample_.positions = put(b.sample_positions, {rows}, if_padded(0));
  sample_.sample_indices = put(b.sample_indices, {rows}, if_padded(0));
}

void InputBuffers::begin() {
  turn_ = 1 - turn_;
  used_ = 0;
}

void InputBuffers::send() { queue_.upload(state_, buffer_.data(), staging(), used_ * sizeof(int32_t)); }

void InputBuffers::upload(const Batch& b) {
  begin();
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
  input_.all_need_logits = b.all_need_logits();
  token_rows_ = b.token_rows.empty() ? Tensor{} : put(b.token_rows, {tokens});
  put_sampling(b, rows);
  send();
}

void InputBuffers::upload_decodes(const Batch& b, int64_t size) {
  begin();
  const int64_t seqs = b.num_seqs(), width = limits_.max_blocks;
  ASSERT(seqs == b.num_tokens() && seqs == b.num_sampled() && seqs <= size && b.num_block_copies() == 0 &&
         b.max_blocks <= width);
  input_.token_ids = put(b.token_ids, {size}, 0);
  input_.positions = put(b.positions, {size}, 0);
  input_.attn.num_singles = size;
  input_.attn.slot_mapping = put(b.slot_mapping, {size}, -1);
  // A token each, those that are missing too: row i is of sequence i.
  input_.attn.cu_seqlens_q = put_range(size + 1);
  input_.logits_indices = put_range(size);
  input_.all_need_logits = true;
  input_.attn.seq_lens = put(b.seq_lens, {size}, 0);
  block_copies_ = {};
  put_sampling(b, size);
  const Tensor token_rows = put(b.token_rows, {size}, 0);  // has its place where none are given too
  token_rows_ = b.token_rows.empty() ? Tensor{} : token_rows.slice(0, seqs);
  input_.attn.block_table =
      Tensor::view(static_cast<int32_t*>(buffer_.data()) + used_, DType::kI32, {size, width});
  int32_t* table = staging() + used_;
  ASSERT((used_ + size_t(size * width)) * sizeof(int32_t) <= buffer_.bytes());
  for (int64_t i = 0; i < seqs; ++i)  // what is behind a sequence's blocks is not read
    std::copy_n(b.block_table.begin() + i * b.max_blocks, b.max_blocks, table + i * width);
  used_ += size_t(seqs * width);
  send();
}

}  // namespace nanovllm
