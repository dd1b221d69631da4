#include "ops/gather_rows.h"

#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class GatherRowsTest : public OpTest {};
INSTANTIATE_OP_TEST(GatherRowsTest);

TEST_P(GatherRowsTest, TakesRowsInTheirOrder) {
  const Floats x = random_floats({5, 33}, 1), out = unwritten({4, 33});
  const Ints indices = ints({4, 0, 4, 2});
  gather_rows(ctx, {.out = out, .x = x, .indices = indices});
  for (int64_t i = 0; i < 4; ++i) EXPECT_TRUE(same_bits(out.row(i), x.row(indices[size_t(i)])));
}

TEST_P(GatherRowsTest, NoRows) {
  const Floats x = random_floats({5, 33}, 1), out({0, 33});
  gather_rows(ctx, {.out = out, .x = x, .indices = Ints({0})});
}

TEST_P(GatherRowsTest, StridedRowsBothWays) {
  const Floats wide = random_floats({5, 40}, 2), target({3, 50}, 7.0f);
  Tensor x = wide, out = target;
  x.shape[1] = out.shape[1] = 9;
  gather_rows(ctx, {.out = out, .x = x, .indices = ints({1, 3, 3})});
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(same_bits(target.row(i).first(9), wide.row(i ? 3 : 1).first(9)));
    for (float v : target.row(i).subspan(9)) EXPECT_EQ(v, 7.0f);
  }
}

TEST(GatherRowsDeathTest, AnIndexOutsideIsABug) {
  OpContext op(cpu_ops(), 1);
  const Floats x = random_floats({5, 3}, 1), out = unwritten({1, 3});
  EXPECT_DEATH(gather_rows(op.ctx, {.out = out, .x = x, .indices = ints({5})}), "begin");
  EXPECT_DEATH(gather_rows(op.ctx, {.out = out, .x = x, .indices = ints({-1})}), "begin");
}

}  // namespace
}  // namespace nanovllm
