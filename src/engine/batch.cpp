#include "engine/batch.h"

#include <algorithm>

namespace nanovllm {
namespace {

void clear(Batch& b) {
  for (auto* array : {&b.token_ids, &b.token_rows, &b.positions, &b.slot_mapping, &b.cu_seqlens_q,
                      &b.seq_lens, &b.block_table, &b.block_copies, &b.logits_indices, &b.top_k, &b.seeds,
                      &b.sample_positions, &b.sample_indices})
    array->clear();
  b.temperature.clear();
  b.top_p.clear();
  b.min_p.clear();
  b.edited_rows.clear();
  b.repetition_penalties.clear();
  b.edit_begins.clear();
  b.edit_ids.clear();
  b.edit_addends.clear();
  b.masked_rows.clear();
  b.masks.clear();
  b.logprob_rows.clear();
  b.num_top_logprobs = 0;
  b.wants_all_logprobs = false;
  b.all_logprobs.clear();
  b.max_blocks = 0;
}

void add_edits(const Sequence& seq, Batch& b) {
  const int row = b.num_sampled() - 1;
  const LogitsEdits& edits = *seq.logits_edits;
  edits.collect(std::span(seq.token_ids).subspan(size_t(seq.num_prompt_tokens)), b.edits);
  if (!b.edits.empty()) {
    if (b.edit_begins.empty()) b.edit_begins.push_back(0);
    b.edited_rows.push_back(row);
    b.repetition_penalties.push_back(edits.repetition_penalty());
    for (const LogitsEdit& edit : b.edits) {
      b.edit_ids.push_back(edit.penalized ? ~edit.id : edit.id);
      b.edit_addends.push_back(float(edit.addend));
    }
    b.edit_begins.push_back(int32_t(b.edit_ids.size()));
  }
  if (edits.allowed().empty()) return;
  b.masked_rows.push_back(row);
  b.masks.insert(b.masks.end(), edits.allowed().begin(), edits.allowed().end());
}

// position: of the token that is drawn
void add_sampling(const Sequence& seq, int position, Batch& b) {
  b.logits_indices.push_back(b.num_tokens() - 1);
  b.temperature.push_back(seq.params.temperature);
  b.top_k.push_back(std::max(0, seq.params.top_k));
  b.top_p.push_back(seq.params.top_p);
  b.min_p.push_back(seq.params.min_p);
  b.seeds.push_back(int32_t(uint32_t(seq.seed)));
  b.seeds.push_back(int32_t(uint32_t(seq.seed >> 32)));
  b.sample_positions.push_back(position);
  b.sample_indices.push_back(seq.sample_index);
  if (seq.logits_edits) add_edits(seq, b);
  if (!seq.params.logprobs) return;
  const int num_top = *seq.params.logprobs;
  b.logprob_rows.push_back(b.num_sampled() - 1);
  b.num_top_logprobs = std::max(b.num_top_logprobs, num_top);
  b.all_logprobs.push_back(num_top < 0);
  b.wants_all_logprobs |= num_top < 0;
}

void add_block_table(const std::vector<Sequence*>& sequences, Batch& batch) {
  for (const Sequence* seq : sequences) {
    if (seq->shares_prompt) continue;
    const int used = std::min(batch.max_blocks, int(seq->block_table.size()));
    batch.block_table.insert(batch.block_table.end(), seq->block_table.begin(),
                             seq->block_table.begin() + used);
    batch.block_table.insert(batch.block_table.end(), size_t(batch.max_blocks - used), -1);
  }
}

}  // namespace

bool Batch::all_need_logits() const {
  if (num_sampled() != num_tokens()) return false;
  for (int i = 0; i < num_sampled(); ++i)
    if (logits_indices[size_t(i)] != i) return false;
  return true;
}

void build_batch(const std::vector<Sequence*>& sequences, int block_size, Batch& batch) {
  clear(batch);
  batch.cu_seqlens_q.push_back(0);
  for (const Sequence* seq : sequences) {
    if (seq->shares_prompt) {
      add_sampling(*seq, seq->num_tokens(), batch);
      continue;
    }
    if (seq->copied_block >= 0) {
      batch.block_copies.push_back(seq->copied_block);
      batch.block_copies.push_back(seq->block_table[size_t(seq->num_computed_tokens / block_size)]);
    }
    const int end = seq->num_computed_tokens + seq->num_scheduled_tokens;
    for (int p = seq->num_computed_tokens; p < end; ++p) {
      batch.token_ids.push_back(seq->token_ids[size_t(p)]);
      batch.positions.push_back(p);
      batch.slot_mapping.push_back(seq->block_table[size_t(p / block_size)] * block_size + p % block_size);
    }
    batch.cu_seqlens_q.push_back(batch.num_tokens());
    batch.seq_lens.push_back(end);
    batch.max_blocks = std::max(batch.max_blocks, (end + block_size - 1) / block_size);
    if (end == seq->num_tokens()) add_sampling(*seq, end, batch);
  }
  add_block_table(sequences, batch);
}

void build_batch_ahead(const std::vector<Sequence*>& sequences, const std::vector<int32_t>& rows,
                       int block_size, Batch& batch) {
  clear(batch);
  batch.cu_seqlens_q.push_back(0);
  batch.token_rows.assign(rows.begin(), rows.end());
  for (const Sequence* seq : sequences) {
    const int position = seq->num_tokens();  // of the token that is being sampled
    batch.token_ids.push_back(0);
    batch.positions.push_back(position);
    batch.slot_mapping.push_back(seq->block_table[size_t(position / block_size)] * block_size +
                                 position % block_size);
    batch.cu_seqlens_q.push_back(batch.num_tokens());
    batch.seq_lens.push_back(position + 1);
    batch.max_blocks = std::max(batch.max_blocks, position / block_size + 1);
    add_sampling(*seq, position + 1, batch);
  }
  add_block_table(sequences, batch);
}

void want_logits(Batch& batch, int first, int count) {
  const auto rows = size_t(count);
  batch.logits_indices.resize(rows);
  for (size_t i = 0; i < rows; ++i) batch.logits_indices[i] = int32_t(i) + first;
  batch.temperature.assign(rows, 0);
  batch.top_k.assign(rows, 0);
  batch.top_p.assign(rows, 1);
  batch.min_p.assign(rows, 0);
  batch.seeds.assign(2 * rows, 0);
  batch.sample_positions.assign(rows, 0);
  batch.sample_indices.assign(rows, 0);
}

}  // namespace nanovllm
