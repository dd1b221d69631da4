// Attention of a query has the same bits however its prompt was cut, whoever is beside it, wherever its
// blocks lie, whoever computes it, and on every instruction set (docs/design.md, decision 8).
#include <map>
#include <random>

#include "ops/attention_fixture.h"
#include "ops/scalar_math.h"

namespace nanovllm {
namespace {

using namespace test;

constexpr AttentionShape kShape{4, 2, 24, 16};

// The definition in ops/attention.h for one query head, written plainly in float32.
std::vector<float> attention_by_definition(const AttentionShape& shape, const AttentionSequence& sequence,
                                           int64_t query, int head) {
  const size_t head_dim = size_t(shape.head_dim);
  const size_t kv_first = size_t(head / (shape.num_heads / shape.num_kv_heads)) * head_dim;
  const auto q = sequence.q.row(query).subspan(size_t(head) * head_dim, head_dim);
  float max = 0, sum = 0;
  std::vector<float> out(head_dim);
  for (int64_t start = 0; start <= query; start += kAttentionChunk) {
    std::vector<float> p;
    for (int64_t i = start; i <= std::min<int64_t>(query, start + kAttentionChunk - 1); ++i) {
      float score = 0;
      for (size_t d = 0; d < head_dim; ++d) score = std::fma(q[d], sequence.k.row(i)[kv_first + d], score);
      p.push_back(score);
    }
    const float chunk_max = *std::max_element(p.begin(), p.end());
    std::array<float, 16> lanes{};
    std::vector<float> chunk_out(head_dim);
    for (size_t i = 0; i < p.size(); ++i) {
      p[i] = exp_f32((p[i] - chunk_max) * shape.scale());
      lanes[i % 16] += p[i];
      for (size_t d = 0; d < head_dim; ++d)
        chunk_out[d] = std::fma(p[i], sequence.v.row(start + int64_t(i))[kv_first + d], chunk_out[d]);
    }
    if (start == 0) {
      max = chunk_max, sum = sum_of_lanes(lanes), out = chunk_out;
      continue;
    }
    const float new_max = std::max(max, chunk_max);
    const float a = exp_f32((max - new_max) * shape.scale()),
                b = exp_f32((chunk_max - new_max) * shape.scale());
    max = new_max;
    sum = std::fma(sum, a, sum_of_lanes(lanes) * b);
    for (size_t d = 0; d < head_dim; ++d) out[d] = std::fma(out[d], a, chunk_out[d] * b);
  }
  for (float& v : out) v /= sum;
  return out;
}

class AttentionBits : public OpTest {};
INSTANTIATE_OP_TEST(AttentionBits);

TEST_P(AttentionBits, ChunksOfAnySize) {
  const AttentionSequence sequence(kShape, 300, 1);
  const Floats want = whole_prefill(ctx, kShape, sequence);
  for (int64_t chunk : {1, 2, 3, 7, 16, 63, 64, 65, 128, 129, 256, 299}) {
    PagedCache cache(ctx, kShape, 20, uint32_t(chunk));
    for (int64_t begin = 0; begin < 300; begin += chunk) {
      const int64_t end = std::min<int64_t>(300, begin + chunk);
      const Floats out = cache.step({{&sequence, begin, end}});
      for (int64_t t = begin; t < end; ++t)
        ASSERT_TRUE(same_bits(out.row(t - begin), want.row(t))) << "chunks of " << chunk << ", token " << t;
    }
  }
}

// Not merely the same however it is cut, but the sums that the header promises.
TEST_P(AttentionBits, IsItsDefinition) {
  for (const AttentionShape& shape : {kShape, AttentionShape{6, 2, 80, 32}}) {
    const AttentionSequence sequence(shape, 400, 8);
    const Floats out = whole_prefill(ctx, shape, sequence);
    for (int64_t t : {0, 1, 15, 16, 63, 64, 126, 127, 128, 129, 200, 255, 256, 383, 384, 399})
      for (int h = 0; h < shape.num_heads; ++h)
        ASSERT_TRUE(same_bits(out.row(t).subspan(size_t(h * shape.head_dim), size_t(shape.head_dim)),
                              attention_by_definition(shape, sequence, t, h)))
            << "head " << h << " of token " << t;
  }
}

TEST_P(AttentionBits, BlockSizesAndPlaces) {
  const AttentionSequence sequence(kShape, 270, 2);
  const Floats want = whole_prefill(ctx, kShape, sequence);
  for (int block_size : {1, 5, 16, 17, 32, 48, 128, 256}) {
    AttentionShape shape = kShape;
    shape.block_size = block_size;
    for (uint32_t seed : {1, 2, 3}) {
      PagedCache cache(ctx, shape, 270 / block_size + 20, seed);
      EXPECT_TRUE(same_bits(cache.step({{&sequence, 0, 270}}).span(), want.span()))
          << block_size << " " << seed;
    }
  }
}

// Steps as a scheduler makes them: decodes and chunks of prompts mixed at random, sequences of many lengths.
TEST_P(AttentionBits, RaggedBatches) {
  constexpr int64_t kLengths[] = {1, 5, 16, 17, 90, 128, 130, 200};
  std::vector<AttentionSequence> sequences;
  std::vector<Floats> wants;
  for (int64_t length : kLengths) {
    sequences.emplace_back(kShape, length, uint32_t(length));
    wants.push_back(whole_prefill(ctx, kShape, sequences.back()));
  }
  for (uint32_t seed = 0; seed < 6; ++seed) {
    std::mt19937 generator(seed);
    PagedCache cache(ctx, kShape, 60, seed);
    std::vector<int64_t> done(std::size(kLengths), 0);
    for (bool left = true; left;) {
      std::vector<PagedCache::Part> parts;
      std::vector<size_t> which;
      left = false;
      for (size_t i = 0; i < sequences.size(); ++i) {
        if (done[i] == kLengths[i]) continue;
        left = true;
        if (generator() % 3 == 0) continue;
        const int64_t wanted = generator() % 2 ? 1 : 1 + int64_t(generator() % 40);
        const int64_t end = std::min(kLengths[i], done[i] + wanted);
        parts.push_back({&sequences[i], done[i], end});
        which.push_back(i);
        done[i] = end;
      }
      const Floats out = cache.step(parts);
      int64_t row = 0;
      for (size_t p = 0; p < parts.size(); ++p)
        for (int64_t t = parts[p].begin; t < parts[p].end; ++t)
          ASSERT_TRUE(same_bits(out.row(row++), wants[which[p]].row(t)))
              << "seed " << seed << ", sequence of " << kLengths[which[p]] << ", token " << t;
    }
  }
}

TEST_P(AttentionBits, AnyNumberOfThreads) {
  const AttentionSequence a(kShape, 140, 3), b(kShape, 33, 4);
  const Floats want_a = whole_prefill(ctx, kShape, a), want_b = whole_prefill(ctx, kShape, b);
  for (int threads : {1, 2, 3, 8}) {
    OpContext other(ops_named(GetParam()), threads);
    PagedCache cache(other.ctx, kShape, 15);
    cache.step({{&a, 0, 100}});
    const Floats out = cache.step({{&b, 0, 33}, {&a, 100, 140}});
    EXPECT_TRUE(same_bits(out.span().first(want_b.size()), want_b.span())) << threads;
    EXPECT_TRUE(same_bits(out.span().subspan(want_b.size()), want_a.span().last(40 * want_a.row(0).size())))
        << threads;
  }
}

// Every height of a tile, every width, every border of keys; prefills, in which rows of a tile see different
// keys.
TEST(AttentionBitsOfAllSets, Agree) {
  EverySet sets;
  for (int head_dim : {8, 16, 25, 32, 64, 80, 128, 256}) {
    for (int group = 1; group <= 9; ++group) {
      if (head_dim > 80 && group > 5 && group != 8)
        continue;  // widths of whole tiles differ in their count only
      const AttentionShape shape{group, 1, head_dim, 16};
      const AttentionSequence sequence(shape, 280, uint32_t(head_dim + group));
      const std::string what = "head_dim " + std::to_string(head_dim) + " group " + std::to_string(group);
      const auto attend = [&](const std::vector<PagedCache::Part>& parts) {
        return sets.same_bits_from_all(what, [&](Context& ctx) {
          PagedCache cache(ctx, shape, 18);
          cache.store({&sequence, 0, 280});
          return cache.attend(parts);
        });
      };
      std::vector<PagedCache::Part> decodes;
      for (int64_t n = 1; n <= 274; ++n) {
        const bool near_16 = n % 16 <= 1 || n % 16 == 15, near_128 = (n + 8) % 128 <= 16;
        if (n < 20 || near_16 || near_128) decodes.push_back({&sequence, n - 1, n});
      }
      const Floats alone = attend(decodes);
      // Each decode again as the last of a chunk of prompt: another height, other mates, the same bits.
      std::map<int64_t, int64_t> row_of;  // token → row of `alone`
      for (size_t i = 0; i < decodes.size(); ++i) row_of[decodes[i].begin] = int64_t(i);
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 34}, {119, 137}, {252, 260}}) {
        const Floats chunk = attend({{&sequence, begin, end}});
        for (int64_t t = begin; t < end; ++t) {
          if (!row_of.count(t)) continue;
          ASSERT_TRUE(same_bits(chunk.row(t - begin), alone.row(row_of[t]))) << what << " token " << t;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nanovllm
