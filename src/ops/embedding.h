// Embedding lookup on one rank's part of the vocabulary.
//
//   out[t] = table[token_ids[t] - first_id]   if that row is in the table, else zeros
//
// Zero rows let an all-reduce over ranks complete the lookup; they are −0, which added to any number, 0 and −0 included,
// is that number. Rows are widened exactly to T, denormals of float32 aside, which become zeros as in all arithmetic here.
#pragma once

#include <vector>

#include "ops/weight.h"

namespace nanovllm {

struct EmbeddingArgs {
  Tensor out;        // [num_tokens, hidden_size] T
  Tensor token_ids;  // [num_tokens] i32
  Weight table;      // [rows, hidden_size]
  int64_t first_id = 0;
};

void embedding(Context& ctx, const EmbeddingArgs& args);

inline std::vector<double> embedding_reference(int64_t id, int64_t first_id, const std::vector<double>& table,
                                               size_t hidden_size) {
  std::vector<double> out(hidden_size, 0.0);
  const int64_t row = id - first_id;
  if (row >= 0 && row < int64_t(table.size() / hidden_size))
    for (size_t i = 0; i < hidden_size; ++i) out[i] = table[size_t(row) * hidden_size + i];
  return out;
}

}  // namespace nanovllm
