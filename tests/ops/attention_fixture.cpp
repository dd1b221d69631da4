#include "ops/attention_fixture.h"

#include <numeric>
#include <random>

namespace nanovllm::test {

AttentionSequence::AttentionSequence(const AttentionShape& shape, int64_t length, uint32_t seed, float scale)
    : q(random_floats({length, shape.num_heads, shape.head_dim}, seed, scale)),
      k(random_floats({length, shape.num_kv_heads, shape.head_dim}, seed + 1000, scale)),
      v(random_floats({length, shape.num_kv_heads, shape.head_dim}, seed + 2000)) {}

PagedCache::PagedCache(Context& ctx, const AttentionShape& shape, int num_blocks, uint32_t seed)
    : ctx_(ctx),
      shape_(shape),
      bytes_(size_t(num_blocks) *
             kv_block_bytes(ctx.ops, DType::kF32, shape.block_size, shape.num_kv_heads, shape.head_dim)),
      k_(*ctx.ops.device, bytes_, "keys"),
      v_(*ctx.ops.device, bytes_, "values"),
      free_blocks_(size_t(num_blocks)) {
  std::memset(k_.data(), 0xFF, bytes_);
  std::memset(v_.data(), 0xFF, bytes_);
  std::iota(free_blocks_.begin(), free_blocks_.end(), 0);
  std::mt19937 generator(seed);
  for (size_t i = free_blocks_.size(); i > 1; --i)
    std::swap(free_blocks_[i - 1], free_blocks_[generator() % i]);
}

KvLayer PagedCache::layer() const {
  return {k_.data(),         v_.data(),           DType::kF32,    int(num_blocks()),
          shape_.block_size, shape_.num_kv_heads, shape_.head_dim};
}

int64_t PagedCache::num_blocks() const {
  return int64_t(bytes_ / kv_block_bytes(ctx_.ops, DType::kF32, shape_.block_size, shape_.num_kv_heads,
                                         shape_.head_dim));
}

std::vector<std::byte> PagedCache::bytes() const {
  std::vector<std::byte> all(2 * bytes_);
  std::memcpy(all.data(), k_.data(), bytes_);
  std::memcpy(all.data() + bytes_, v_.data(), bytes_);
  return all;
}

const std::vector<int32_t>& PagedCache::blocks_of(const AttentionSequence& sequence, int64_t num_tokens) {
  for (auto& [known, blocks] : tables_)
    if (known == &sequence) return grow(blocks, num_tokens);
  tables_.emplace_back(&sequence, std::vector<int32_t>());
  return grow(tables_.back().second, num_tokens);
}

void PagedCache::store(const Part& part) {
  const std::vector<int32_t>& blocks = blocks_of(*part.sequence, part.end);
  Ints slots({part.end - part.begin});
  for (int64_t t = part.begin; t < part.end; ++t)
    slots[size_t(t - part.begin)] =
        int32_t(blocks[size_t(t / shape_.block_size)] * shape_.block_size + t % shape_.block_size);
  store_kv(ctx_, {.cache = layer(),
                  .k = part.sequence->k.tensor().slice(part.begin, part.end - part.begin),
                  .v = part.sequence->v.tensor().slice(part.begin, part.end - part.begin),
                  .slot_mapping = slots});
}

Floats PagedCache::attend(const std::vector<Part>& parts) {
  const int64_t num_seqs = int64_t(parts.size());
  int64_t num_tokens = 0, max_blocks = 0;
  for (const Part& p : parts) {
    num_tokens += p.end - p.begin;
    max_blocks = std::max(max_blocks, int64_t(blocks_of(*p.sequence, p.end).size()));
  }
  const int64_t row = int64_t(shape_.num_heads) * shape_.head_dim;
  Floats q({num_tokens, shape_.num_heads, shape_.head_dim}), out = unwritten({num_tokens, row});
  Ints cu_seqlens_q({num_seqs + 1}), seq_lens({num_seqs}), block_table({num_seqs, max_blocks}, -1);
  for (int64_t i = 0; i < num_seqs; ++i) {
    const Part& p = parts[size_t(i)];
    const int64_t first = cu_seqlens_q[size_t(i)];
    std::copy_n(p.sequence->q.data() + p.begin * row, (p.end - p.begin) * row, q.data() + first * row);
    cu_seqlens_q[size_t(i) + 1] = int32_t(first + p.end - p.begin);
    seq_lens[size_t(i)] = int32_t(p.end);
    const std::vector<int32_t>& blocks = blocks_of(*p.sequence, p.end);
    const size_t needed = size_t((p.end + shape_.block_size - 1) / shape_.block_size);
    std::copy_n(blocks.begin(), needed, block_table.data() + i * max_blocks);
  }
  attention(ctx_, {.out = out,
                   .q = q,
                   .cache = layer(),
                   .meta = {.cu_seqlens_q = cu_seqlens_q, .seq_lens = seq_lens, .block_table = block_table},
                   .scale = shape_.scale()});
  return out;
}

Floats PagedCache::step(const std::vector<Part>& parts) {  // store, then attend, as a layer does
  for (const Part& p : parts) store(p);
  return attend(parts);
}

const std::vector<int32_t>& PagedCache::grow(std::vector<int32_t>& blocks, int64_t num_tokens) {
  while (int64_t(blocks.size()) * shape_.block_size < num_tokens) {
    if (free_blocks_.empty()) throw std::runtime_error("the test's cache is too small");
    blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
  return blocks;
}

Floats whole_prefill(Context& ctx, const AttentionShape& shape, const AttentionSequence& sequence) {
  PagedCache cache(ctx, shape, int(sequence.length() / shape.block_size) + 1, 7);
  return cache.step({{&sequence, 0, sequence.length()}});
}

}  // namespace nanovllm::test
