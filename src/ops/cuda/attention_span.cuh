// The part of a plan that is a thread block's (attention_plan.cuh).
#pragma once

#include "ops/cuda/attention_plan.cuh"

namespace nanovllm::cuda {

template <class T>
struct DecodeParams {
  AttentionParams<T> attention;
  DecodePlan plan;
};

// What a thread block does at a time: chunks of one sequence and kv head.
struct Work {
  PlannedSequence sequence;
  int kv_head, first_chunk, end_chunk, num_chunks;

  __device__ int slot_of(int chunk) const { return sequence.first_slot + kv_head * num_chunks + chunk; }
  __device__ bool is_whole() const { return first_chunk == 0 && end_chunk == num_chunks; }
  __device__ int tokens_of(int chunk) const {
    return min(kAttentionChunk, sequence.num_keys - chunk * kAttentionChunk);
  }
};

// The works of a thread block's span, one after the other.
class Span {
 public:
  template <class T>
  __device__ explicit Span(const DecodeParams<T>& p)
      : plan_(p.plan), num_seqs_(p.attention.num_seqs), num_kv_heads_(p.attention.num_kv_heads) {
    const SpanStart begin = plan_.starts[blockIdx.x], end = plan_.starts[blockIdx.x + 1];
    end_key_ = key_of(end.sequence, end.kv_head);
    end_chunk_ = end.chunk;
    go_to(begin.sequence, begin.kv_head, begin.chunk);
  }

  __device__ bool done() const { return done_; }
  __device__ void advance() {
    if (work.kv_head + 1 < num_kv_heads_) return go_to(work.sequence, work.kv_head + 1, 0);
    int index = work.sequence.index;
    do ++index;
    while (index < num_seqs_ && plan_.sequences[index].num_keys == 0);
    go_to(index < num_seqs_ ? plan_.sequences[index] : PlannedSequence{0, 0, 0, index}, 0, 0);
  }
  // Of the work, which lies in several spans: where the first one ends.
  __device__ int end_of_first_part() const {
    const int pieces = *plan_.num_pieces,
              begin = work.sequence.first_piece +
                      work.kv_head * ((work.sequence.num_keys + kPieceKeys - 1) / kPieceKeys);
    int span = int(int64_t(begin) * plan_.grid / pieces);
    while (plan_.begin_of(span + 1, pieces) <= begin) ++span;
    return plan_.starts[span + 1].chunk;
  }

  Work work;

 private:
  __device__ int key_of(const PlannedSequence& sequence, int kv_head) const {
    return sequence.index * num_kv_heads_ + kv_head;
  }
  __device__ void go_to(const PlannedSequence& sequence, int kv_head, int chunk) {
    const int key = key_of(sequence, kv_head);
    done_ = key > end_key_ || (key == end_key_ && chunk >= end_chunk_);
    work.sequence = sequence;
    work.kv_head = kv_head;
    work.first_chunk = chunk;
    work.num_chunks = (sequence.num_keys + kAttentionChunk - 1) / kAttentionChunk;
    work.end_chunk = key == end_key_ ? end_chunk_ : work.num_chunks;
  }

  const DecodePlan& plan_;
  int num_seqs_, num_kv_heads_, end_key_, end_chunk_;
  bool done_;
};

}  // namespace nanovllm::cuda
