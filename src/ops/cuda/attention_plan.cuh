// How the keys of sequences with one query are shared out among thread blocks, worked out on the GPU once a step.
//
// A job is a run of chunks of one sequence, for one kv head. Where there are few sequences each is cut into several jobs, whose
// results meet in memory; where there are many, most are one job. Jobs go longest first, dealt out in turn.
#pragma once

#include "ops/cuda/attention_common.cuh"

namespace nanovllm::cuda {

struct
    DecodeJob {  // for each kv head: chunks [part · chunks / num_parts, (part + 1) · chunks / num_parts) of the sequence
  int32_t sequence, part, num_parts;
  int32_t first_slot;  // where results of the sequence's chunk 0 go, if it has several parts
};

// Views into AttentionMeta::plan.
struct DecodePlan {
  int32_t* num_jobs;  // [1]
  DecodeJob* jobs;    // [max_jobs]
  int32_t* counted;   // [num_seqs, num_kv_heads]  chunks whose results have met; zero between ops
  float2* states;     // [num_slots, num_kv_heads, group]  maximum and sum
  float* outs;        // [num_slots, num_kv_heads, group, head_dim]
  int max_jobs;
  int64_t num_slots;
  size_t bytes;  // of all
  int grid;      // thread blocks that work at once
};

// Dynamic shared memory of a thread block, three of which are on a multiprocessor.
constexpr int kDecodeStageTokens = 64, kDecodeThreads = 160, kDecodeBlocksPerSm = 3;
constexpr size_t kDecodeSharedBytes = size_t{64} << 10;

DecodePlan decode_plan(void* memory, const AttentionMeta& meta, const KvLayer& cache, int num_heads);

// Whether a kernel for such sequences is there: what it was compiled for, and the cache's shape.
bool has_decode_kernel(const KvLayer& cache, int num_heads);

}  // namespace nanovllm::cuda
