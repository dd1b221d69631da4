#include "runtime/input_buffers.h"

#include <algorithm>
#include <optional>

#include "base/assert.h"

namespace nanovllm {
namespace {

constexpr size_t kNumArrays = 17;

size_t words_of(const BatchLimits& limits) {
  const size_t seqs = size_t(limits.max_num_seqs);
  return 3 * size_t(limits.max_num_tokens) + seqs + 4 * seqs + 1 + seqs * size_t(limits.max_blocks) +
         10 * size_t(limits.max_num_sampled) + kNumArrays * StagedArrays::kAlignedWords;
}

}  // namespace

size_t InputBuffers::bytes(const BatchLimits& limits) { return words_of(limits) * sizeof(int32_t); }

InputBuffers::InputBuffers(const OpTable& ops, void* state, const BatchLimits& limits)
    : limits_(limits), arrays_(ops, state, bytes(limits), "step input") {}

void InputBuffers::put_sampling(const Batch& b, int64_t rows) {
  const bool padded = rows > b.num_sampled();
  const auto if_padded = [&](auto value) { return padded ? std::optional(value) : std::nullopt; };
  sample_.temperature = arrays_.put(b.temperature, {rows}, if_padded(0.0f));
  sample_.top_k = arrays_.put(b.top_k, {rows}, if_padded(0));
  sample_.top_p = arrays_.put(b.top_p, {rows}, if_padded(1.0f));
  sample_.min_p = arrays_.put(b.min_p, {rows}, if_padded(0.0f));
  sample_.seeds = arrays_.put(b.seeds, {rows, 2}, if_padded(0));
  sample_.positions = arrays_.put(b.sample_positions, {rows}, if_padded(0));
  sample_.sample_indices = arrays_.put(b.sample_indices, {rows}, if_padded(0));
}

void InputBuffers::upload(const Batch& b) {
  arrays_.begin();
  const int64_t tokens = b.num_tokens(), seqs = b.num_seqs(), rows = b.num_sampled();
  input_.token_ids = arrays_.put(b.token_ids, {tokens});
  input_.positions = arrays_.put(b.positions, {tokens});
  input_.attn.num_singles = 0;
  for (size_t i = 0; i < size_t(seqs); ++i)
    input_.attn.num_singles += b.cu_seqlens_q[i + 1] - b.cu_seqlens_q[i] == 1;
  input_.attn.slot_mapping = arrays_.put(b.slot_mapping, {tokens});
  input_.attn.cu_seqlens_q = arrays_.put(b.cu_seqlens_q, {seqs + 1});
  input_.attn.seq_lens = arrays_.put(b.seq_lens, {seqs});
  input_.attn.block_table = arrays_.put(b.block_table, {seqs, b.max_blocks});
  block_copies_ = arrays_.put(b.block_copies, {b.num_block_copies(), 2});
  input_.logits_indices = arrays_.put(b.logits_indices, {rows});
  input_.all_need_logits = b.all_need_logits();
  token_rows_ = b.token_rows.empty() ? Tensor{} : arrays_.put(b.token_rows, {tokens});
  put_sampling(b, rows);
  logprob_rows_ = arrays_.put(b.logprob_rows, {b.num_logprobs()});
  arrays_.send();
}

void InputBuffers::upload_decodes(const Batch& b, int64_t size) {
  arrays_.begin();
  const int64_t seqs = b.num_seqs(), width = limits_.max_blocks;
  ASSERT(seqs == b.num_tokens() && seqs == b.num_sampled() && seqs <= size && b.num_block_copies() == 0 &&
         b.max_blocks <= width);
  input_.token_ids = arrays_.put(b.token_ids, {size}, 0);
  input_.positions = arrays_.put(b.positions, {size}, 0);
  input_.attn.num_singles = size;
  input_.attn.slot_mapping = arrays_.put(b.slot_mapping, {size}, -1);
  // A token each, those that are missing too: row i is of sequence i.
  input_.attn.cu_seqlens_q = arrays_.put_range(size + 1);
  input_.logits_indices = arrays_.put_range(size);
  input_.all_need_logits = true;
  input_.attn.seq_lens = arrays_.put(b.seq_lens, {size}, 0);
  block_copies_ = {};
  put_sampling(b, size);
  const Tensor token_rows = arrays_.put(b.token_rows, {size}, 0);  // has its place where none are given too
  token_rows_ = b.token_rows.empty() ? Tensor{} : token_rows.slice(0, seqs);
  void* staging = nullptr;
  input_.attn.block_table = arrays_.reserve(DType::kI32, {size, width}, staging);
  auto* const table = static_cast<int32_t*>(staging);
  for (int64_t i = 0; i < seqs; ++i)  // what is behind a sequence's blocks, and of missing ones, is not read
    std::copy_n(b.block_table.begin() + i * b.max_blocks, b.max_blocks, table + i * width);
  logprob_rows_ = arrays_.put(b.logprob_rows, {b.num_logprobs()});
  arrays_.send();
}

}  // namespace nanovllm
