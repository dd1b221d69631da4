// Sequences with random queries, keys and values, and a paged cache to attend over them in any step one
// likes.
#pragma once

#include "ops/ops_fixture.h"

namespace nanovllm::test {

struct AttentionShape {
  int num_heads = 2, num_kv_heads = 1, head_dim = 16, block_size = 16;

  float scale() const { return 1 / std::sqrt(float(head_dim)); }
};

// One sequence's queries, keys and values of all its tokens.
struct AttentionSequence {
  AttentionSequence(const AttentionShape& shape, int64_t length, uint32_t seed, float scale = 2);

  int64_t length() const { return q.tensor().shape[0]; }

  Floats q, k, v;  // [length, heads, head_dim]
};

// A cache whose blocks lie in a shuffled order; what is not written is NaN. Each sequence may be in it once.
class PagedCache {
 public:
  PagedCache(Context& ctx, const AttentionShape& shape, int num_blocks, uint32_t seed = 1);

  KvLayer layer() const;
  int64_t num_blocks() const;
  std::vector<std::byte> bytes() const;

  // Tokens [begin, end) of a sequence.
  struct Part {
    const AttentionSequence* sequence;
    int64_t begin, end;
  };

  // The physical blocks of a sequence that is to hold num_tokens.
  const std::vector<int32_t>& blocks_of(const AttentionSequence& sequence, int64_t num_tokens);

  void store(const Part& part);

  // Attention of these parts in one call, over what is in the cache: [tokens of all parts, num_heads *
  // head_dim].
  Floats attend(const std::vector<Part>& parts);

  Floats step(const std::vector<Part>& parts);  // store, then attend, as a layer does

 private:
  const std::vector<int32_t>& grow(std::vector<int32_t>& blocks, int64_t num_tokens);

  Context& ctx_;
  AttentionShape shape_;
  size_t bytes_;  // of the keys, and of the values
  DeviceBuffer k_, v_;
  std::vector<int32_t> free_blocks_;
  std::vector<std::pair<const AttentionSequence*, std::vector<int32_t>>> tables_;
};

// The whole sequence in one step, alone in a cache of its own.
Floats whole_prefill(Context& ctx, const AttentionShape& shape, const AttentionSequence& sequence);

}  // namespace nanovllm::test
