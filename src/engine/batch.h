// What one step runs: the flat, self-contained arrays that the model, the attention kernels and the sampler
// read.
//
// Built from Sequences, but holds none: it can be handed to another thread, copied to a GPU or sent to
// another rank. There are no prefill and decode types: a sequence has uncomputed tokens, one or many, and a
// step mixes them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/token.h"
#include "engine/sequence.h"

namespace nanovllm {

struct Batch {
  int num_seqs() const { return int(seq_lens.size()); }
  int num_tokens() const { return int(token_ids.size()); }
  int num_sampled() const { return int(logits_indices.size()); }
  bool all_need_logits() const;  // logits_indices are all tokens in their order
  int num_block_copies() const { return int(block_copies.size()) / 2; }

  std::vector<TokenId> token_ids;  // [num_tokens]
  // [num_tokens] or none. Given in a step of decodes whose token ids are not known yet: the rows of the step before it that
  // sample them.
  std::vector<int32_t> token_rows;
  std::vector<int32_t> positions;     // [num_tokens]           of each token in its own sequence
  std::vector<int32_t> slot_mapping;  // [num_tokens]           where K and V go: block * block_size + offset
  std::vector<int32_t> cu_seqlens_q;  // [num_seqs + 1]         tokens [cu[i], cu[i+1]) belong to sequence i
  std::vector<int32_t> seq_lens;      // [num_seqs]             keys to attend to, this step's tokens included
  std::vector<int32_t> block_table;  // [num_seqs, max_blocks] physical block of each logical block, -1 = none
  std::vector<int32_t> block_copies;    // [num_block_copies, 2]  from, to: done before anything is computed
  std::vector<int32_t> logits_indices;  // [num_sampled]          rows of the hidden state that need logits
  int max_blocks = 0;

  // How each logits row is sampled (ops/sample.h).
  std::vector<float> temperature;         // [num_sampled]
  std::vector<int32_t> top_k;             // [num_sampled]
  std::vector<float> top_p;               // [num_sampled]
  std::vector<float> min_p;               // [num_sampled]
  std::vector<int32_t> seeds;             // [num_sampled, 2]     low and high half
  std::vector<int32_t> sample_positions;  // [num_sampled]        position of the token that is drawn
  std::vector<int32_t> sample_indices;    // [num_sampled]        which of a request's completions

  // Whose logprobs are wanted (ops/logprobs.h).
  int num_logprobs() const { return int(logprob_rows.size()); }
  std::vector<int32_t> logprob_rows;  // [num_logprobs]         logits rows, rising
  int num_top_logprobs = 0;           // the most that one of them wants
  bool wants_all_logprobs = false;    // one of them wants all tokens
  std::vector<uint8_t> all_logprobs;  // [num_logprobs]         whether it wants all tokens

  // What is changed in logits before they are sampled (ops/edit_logits.h).
  int num_edited() const { return int(edited_rows.size()); }
  int num_masked() const { return int(masked_rows.size()); }
  bool edits_logits() const { return num_edited() > 0 || num_masked() > 0; }
  std::vector<int32_t> edited_rows;         // [num_edited]           logits rows
  std::vector<float> repetition_penalties;  // [num_edited]
  std::vector<int32_t> edit_begins;  // [num_edited + 1]       edits [begins[i], begins[i+1]) are of row i
  std::vector<int32_t> edit_ids;     // [num_edits]            ~id: penalized
  std::vector<float> edit_addends;   // [num_edits]
  std::vector<int32_t> masked_rows;  // [num_masked]           logits rows
  std::vector<uint32_t> masks;       // [num_masked, words]    a bit for each id that may come
  std::vector<LogitsEdit> edits;     // of one row, while the batch is built
};

// Refills `batch` with the scheduled tokens of these sequences, in their order; one that shares a prompt follows the
// sequence that computes it, and takes a token of its own from the same row. Keeps its memory: after the first large
// step nothing is allocated.
void build_batch(const std::vector<Sequence*>& sequences, int block_size, Batch& batch);

// The step behind the one that these sequences are in, a decode each: of what that one samples from `rows`, one for each
// sequence. They have blocks for it.
void build_batch_ahead(const std::vector<Sequence*>& sequences, const std::vector<int32_t>& rows,
                       int block_size, Batch& batch);

// Asks for logits of `count` tokens from `first` on in place of what is sampled: for scoring and rehearsals.
void want_logits(Batch& batch, int first, int count);

}  // namespace nanovllm
