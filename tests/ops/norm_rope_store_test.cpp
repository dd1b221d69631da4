// One pass or one op after the other: the same q, and the same cache.
#include "ops/attention_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class NormRopeStoreTest : public OpTest {};
INSTANTIATE_OP_TEST(NormRopeStoreTest);

TEST_P(NormRopeStoreTest, IsTheSingleOps) {
  for (const AttentionShape& shape :
       {AttentionShape{16, 8, 128, 16}, AttentionShape{5, 5, 64, 64}, AttentionShape{4, 1, 32, 5},
        AttentionShape{2, 2, 16, 16}, AttentionShape{3, 1, 48, 16}})
    for (const bool has_norms : {true, false}) {
      constexpr int64_t kTokens = 7, kPositions = 40;
      const int64_t dim = shape.head_dim, row = (shape.num_heads + 2 * shape.num_kv_heads) * dim;
      const Floats table = random_floats({kPositions, dim}, 1), q_weight = random_floats({dim}, 2, 2),
                   k_weight = random_floats({dim}, 3, 2);
      const Ints positions = ints({0, 39, 5, 5, 17, 1, 30}), slots = ints({3, -1, 0, 11, 7, 20, 16});
      Floats one_pass = random_floats({kTokens, row}, 4), single = one_pass;
      PagedCache fused_cache(ctx, shape, 6), single_cache(ctx, shape, 6);
      const auto part = [&](const Floats& qkv, int64_t first, int64_t count) {
        return heads(qkv, first, count, dim);
      };
      const int64_t q_heads = shape.num_heads, kv_heads = shape.num_kv_heads;
      const auto args = [&](const Floats& qkv, const PagedCache& cache) {
        return NormRopeStoreArgs{.q = part(qkv, 0, q_heads),
                                 .k = part(qkv, q_heads, kv_heads),
                                 .v = part(qkv, q_heads + kv_heads, kv_heads),
                                 .q_weight = has_norms ? q_weight.tensor() : Tensor{},
                                 .k_weight = has_norms ? k_weight.tensor() : Tensor{},
                                 .eps = 1e-5f,
                                 .positions = positions,
                                 .cos_sin = table,
                                 .cache = cache.layer(),
                                 .slot_mapping = slots};
      };
      norm_rope_store(ctx, args(one_pass, fused_cache));
      norm_rope_store_by_single_ops(ctx, args(single, single_cache));
      for (int64_t t = 0; t < kTokens; ++t)
        EXPECT_TRUE(same_bits(one_pass.row(t).first(size_t(q_heads * dim)),
                              single.row(t).first(size_t(q_heads * dim))))
            << dim << ", token " << t;
      EXPECT_EQ(fused_cache.bytes(), single_cache.bytes()) << dim;
    }
}

}  // namespace
}  // namespace nanovllm
