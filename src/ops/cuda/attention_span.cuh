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

  __device__ int num_pieces() const { return (sequence.num_keys + kPieceKeys - 1) / kPieceKeys; }
  __device__ int first_piece() const { return sequence.first_piece + kv_head * num_pieces(); }
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
    const SpanStart start = plan_.starts[blockIdx.x];
    pieces_ = *plan_.num_pieces;
    most_uncut_ = *plan_.most_uncut;
    end_ = plan_.begin_of(int(blockIdx.x) + 1, pieces_);
    if (pieces_ > 0) enter(start.sequence, start.kv_head, start.chunk);
  }

  __device__ bool done() const {
    return pieces_ == 0 || work.first_piece() + work.first_chunk * kChunkPieces >= end_;
  }
  __device__ void advance() {
    if (work.kv_head + 1 < num_kv_heads_) return enter(work.sequence, work.kv_head + 1, 0);
    int index = work.sequence.index;
    do ++index;
    while (index < num_seqs_ && plan_.sequences[index].num_keys == 0);
    enter(index < num_seqs_ ? plan_.sequences[index] : PlannedSequence{pieces_, 0, 0, index}, 0, 0);
  }
  // Where the span ends that has the first chunk of the work's sequence and kv head.
  __device__ int end_of_first_part() const {
    const int begin = work.first_piece();
    int span = int(int64_t(begin) * plan_.grid / pieces_);
    while (plan_.begin_of(span + 1, pieces_) <= begin) ++span;
    return end_chunk_in(plan_.begin_of(span + 1, pieces_));
  }

  Work work;

 private:
  __device__ void enter(const PlannedSequence& sequence, int kv_head, int chunk) {
    work.sequence = sequence;
    work.kv_head = kv_head;
    work.first_chunk = chunk;
    work.num_chunks = (sequence.num_keys + kAttentionChunk - 1) / kAttentionChunk;
    work.end_chunk = work.num_chunks > most_uncut_ ? end_chunk_in(end_) : work.num_chunks;
  }
  // The first chunk of the work's sequence and kv head that begins at piece `end` or behind.
  __device__ int end_chunk_in(int end) const {
    return min(work.num_chunks, (end - work.first_piece() + kChunkPieces - 1) / kChunkPieces);
  }

  const DecodePlan& plan_;
  int num_seqs_, num_kv_heads_, pieces_, end_, most_uncut_;
};

}  // namespace nanovllm::cuda
