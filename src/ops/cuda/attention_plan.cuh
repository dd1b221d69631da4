// How the keys of sequences with one query are shared out among thread blocks, worked out on the GPU once a step.
//
// All chunks of all such sequences stand in a row, sequence by sequence, kv head by kv head, and the row is cut into equal
// spans, one a thread block; a chunk is of the span in which its first 16 keys are, but sequences of few chunks stay whole, with the
// span in which they begin. Most sequences lie in one span. Of those that do not, the first span keeps its joined state and the others
// the result of every chunk, for whoever comes last to join.
#pragma once

#include "ops/cuda/attention_common.cuh"

namespace nanovllm::cuda {

// Places in the row are counted in pieces of 16 keys.
constexpr int kPieceKeys = 16, kChunkPieces = kAttentionChunk / kPieceKeys;
// Joining what two thread blocks have takes longer than a chunk or two more for one of them: sequences of at most so many chunks
// are not cut.
constexpr int kShortChunks = 3;

struct PlannedSequence {
  int32_t first_piece;  // in the row, of its first kv head
  int32_t first_slot;   // of the results of its first kv head's chunks
  int32_t num_keys;     // 0: it has not one query
  int32_t index;        // of the sequence
};
struct SpanStart {  // where a span's first chunk is
  PlannedSequence sequence;
  int32_t kv_head, chunk;
};

// Views into AttentionMeta::plan.
struct DecodePlan {
  int32_t* num_pieces;         // [1]     of the row
  SpanStart* starts;           // [grid + 1]  each span ends where the next one starts
  PlannedSequence* sequences;  // [num_seqs]
  int32_t* counted;            // [num_seqs, num_kv_heads]  chunks whose results are there; zero between ops
  float2* states;              // [num_slots, group]  maximum and sum
  float* outs;                 // [num_slots, group, head_dim]
  int64_t num_slots;
  size_t bytes;  // of all
  int grid;      // thread blocks, that work at the same time

  // The piece at which span i begins.
  __device__ int begin_of(int i, int pieces) const { return int(int64_t(i) * pieces / grid); }
};

// Four warps that compute and one that copies, with a ring of stages in dynamic shared memory; three thread blocks of them are on a
// multiprocessor.
constexpr int kDecodeStageTokens = 64, kDecodeThreads = 160, kDecodeBlocksPerSm = 3;
constexpr size_t kDecodeSharedBytes = size_t{64} << 10;

DecodePlan decode_plan(void* memory, const AttentionMeta& meta, const KvLayer& cache, int num_heads);

// Whether a kernel for such sequences is there: what it was compiled for, and the cache's shape.
bool has_decode_kernel(const KvLayer& cache, int num_heads);

}  // namespace nanovllm::cuda
