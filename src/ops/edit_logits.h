// What requests want changed in their logits before they are sampled.
//
//   masks       ids whose bit is 0 become −infinity, but for NaN and +infinity, so that a sick row is found sick
//   edits       x → x + addend; of penalized ids first x → x / penalty, or x · penalty where x < 0
//               (repetition penalty: Keskar et al. 2019, "CTRL", arXiv:1909.05858, section 4.1)
//
// Rows that are not named, and ids that are not, keep their bits. Each sum, product and quotient is rounded once.
#pragma once

#include "ops/context.h"

namespace nanovllm {

struct EditLogitsArgs {
  Tensor logits;       // [num_rows, vocab_size] f32; in place
  Tensor masked_rows;  // [num_masked] i32, each row once; undefined: none
  Tensor masks;        // [num_masked, (vocab_size + 31) / 32] i32: bit id % 32 of word id / 32
  Tensor rows;         // [num_edited] i32, each row once; undefined: none
  Tensor begins;       // [num_edited + 1] i32: edits [begins[i], begins[i + 1]) are of rows[i]
  Tensor penalties;    // [num_edited] f32, above 0
  Tensor ids;          // [num_edits] i32, in a row each once; ~id: penalized
  Tensor addends;      // [num_edits] f32; afterwards the logits that were there
};

void edit_logits(Context& ctx, const EditLogitsArgs& args);
// Behind edit_logits, with the same arguments: takes the edits back, not the masks.
void restore_logits(Context& ctx, const EditLogitsArgs& args);

}  // namespace nanovllm
