#include "runtime/edit_buffers.h"

#include <algorithm>

namespace nanovllm {
namespace {

constexpr size_t kNumArrays = 7;

int64_t mask_words(int64_t vocab_size) { return (vocab_size + 31) / 32; }

// Each id once.
int64_t most_edits(const BatchLimits& limits, int64_t vocab_size) {
  const auto listed = int64_t(kMaxStopTokenIds + kMaxEosTokenIds + kMaxLogitBiases + 2 * kMaxBadWords);
  return std::min(vocab_size, limits.max_blocks * limits.block_size + listed);
}

}  // namespace

size_t EditBuffers::bytes(const BatchLimits& limits, int64_t vocab_size) {
  const int64_t each = 4 + mask_words(vocab_size) + 2 * most_edits(limits, vocab_size);
  return (size_t(limits.max_num_seqs * each) + 1 + kNumArrays * StagedArrays::kAlignedWords) *
         sizeof(int32_t);
}

EditBuffers::EditBuffers(const OpTable& ops, void* state, const BatchLimits& limits, int64_t vocab_size)
    : mask_words_(mask_words(vocab_size)),
      arrays_(ops, state, bytes(limits, vocab_size), "edits of logits") {}

EditLogitsArgs EditBuffers::upload(const Batch& b) {
  EditLogitsArgs args;
  arrays_.begin();
  if (const int64_t masked = b.num_masked(); masked > 0) {
    args.masked_rows = arrays_.put(b.masked_rows, {masked});
    args.masks = arrays_.put(b.masks, {masked, mask_words_});
  }
  if (const int64_t edited = b.num_edited(); edited > 0) {
    const auto edits = int64_t(b.edit_ids.size());
    args.rows = arrays_.put(b.edited_rows, {edited});
    args.begins = arrays_.put(b.edit_begins, {edited + 1});
    args.penalties = arrays_.put(b.repetition_penalties, {edited});
    args.ids = arrays_.put(b.edit_ids, {edits});
    args.addends = arrays_.put(b.edit_addends, {edits});
  }
  arrays_.send();
  return args;
}

}  // namespace nanovllm
