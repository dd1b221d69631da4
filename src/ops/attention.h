// Causal attention over the paged KV cache: one contract for prefill, chunked prefill and decode.
//
// Sequence i has queries [cu_seqlens_q[i], cu_seqlens_q[i + 1]) and seq_lens[i] keys; its last query is its
// last key's token, so query j of n sees keys 0 … seq_lens[i] − n + j. Query head h reads kv head h /
// (num_heads / num_kv_heads).
//
//   out = softmax(scale · q Kᵀ) V
//
// One definition for every batch, chunk and kernel (docs/design.md, decision 8); in float32:
//   - keys are taken in chunks of 128, counted from position 0; keys that a query may not see are not there
//   - score s = chain over head_dim from zero; m = max s; p = exp((s − m) · scale)
//   - l = sum of p by one fixed tree (16 lanes as in ops/rms_norm.h); o = chain over the chunk's keys from zero
//   - chunks are merged in order: m' = max(m, m_c), and for l and o
//     x' = fma(x, exp((m − m') · scale), x_c · exp((m_c − m') · scale))
//   - out = o / l, rounded once to T
// With tensor cores, T = bf16 or f16, c = scale · log2 e rounded to float32:
//   - s = chain of m16n8k16 over head_dim; m = max s · c; p = 2^fma(s, c, −m), 2^x by ex2.approx.ftz; masked p are 0
//   - l = the sum of p rounded up or down to multiples of 2^-23 (the bits of 1 + p), as integers: exact, free of order
//   - o = chain of m16n8k16 over the chunk's keys of p, rounded to T, and v
//   - merged likewise, x' = fma(x, 2^(m − m'), x_c · 2^(m_c − m')); a chunk without a key that is seen changes nothing
//     (a value that is no number may, of a later token of the same prompt too: its weight is 0)
//   - out = o · (1 / l), rounded once to T
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/kv_layer.h"

namespace nanovllm {

inline constexpr int kAttentionChunk = 128;  // keys

// Where each sequence of a step has its tokens and its blocks.
struct AttentionMeta {
  Tensor cu_seqlens_q;       // [num_seqs + 1] i32
  Tensor seq_lens;           // [num_seqs] i32, this step's tokens included
  Tensor block_table;        // [num_seqs, max_blocks] i32, -1 = none
  Tensor slot_mapping;       // [num_tokens] i32
  int64_t num_singles = -1;  // sequences with one query in this step; -1: not told
  Tensor plan;               // of plan_attention: the backend's own
};

struct AttentionArgs {
  Tensor out;  // [num_tokens, num_heads * head_dim] T
  Tensor q;    // [num_tokens, num_heads, head_dim] T
  KvLayer cache;
  AttentionMeta meta;
  float scale = 1;
};

void attention(Context& ctx, const AttentionArgs& args);

// What is worked out once for all layers of a step, in memory of the arena: meta with its plan, if the backend makes one for
// such a cache. Attention gives the same bits with a plan and without. Before it is called, all that sequences with one query
// will read is in the cache but what is at their last position: kernels may read it before the op in front of attention ends.
AttentionMeta plan_attention(Context& ctx, const AttentionMeta& meta, const KvLayer& cache, int num_heads);

struct PlanAttentionArgs {
  Tensor plan;
  AttentionMeta meta;
  KvLayer cache;
  int num_heads = 0;
};

// One query head over its keys, in double: keys[i] and values[i] are what it may see.
inline std::vector<double> attention_reference(const std::vector<double>& q,
                                               const std::vector<std::vector<double>>& keys,
                                               const std::vector<std::vector<double>>& values, double scale) {
  std::vector<double> scores, out(values[0].size(), 0.0);
  for (const auto& key : keys) {
    double s = 0;
    for (size_t d = 0; d < q.size(); ++d) s += q[d] * key[d];
    scores.push_back(s * scale);
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const double p = std::exp(scores[i] - max);
    sum += p;
    for (size_t d = 0; d < out.size(); ++d) out[d] += p * values[i][d];
  }
  for (double& v : out) v /= sum;
  return out;
}

}  // namespace nanovllm
