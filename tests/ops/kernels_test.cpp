// The backend's tables: which there are, that they are whole, what memory they take; and the kernels that no
// op shows alone.
#include "ops/cpu/kernels.h"

#include "ops/attention_fixture.h"
#include "ops/sample_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

TEST(Kernels, ThePortableSetRunsEverywhereAndTheBestIsFirst) {
  const std::vector<std::string> sets = instruction_sets();
  EXPECT_EQ(sets.back(), "portable");
  EXPECT_EQ(cpu_ops().instruction_set, sets.front());
  EXPECT_EQ(&cpu_ops(), &cpu_ops(sets.front()));
  for (const std::string& set : sets) EXPECT_EQ(cpu_ops(set).instruction_set, set);
}

TEST(Kernels, AnUnknownSetIsRefused) {
  expect_message(
      ErrorKind::kConfig,
      "instruction set: is sse9, want one that this processor runs, such as " + instruction_sets().front(),
      [] { cpu_ops("sse9"); });
}

class KernelsTest : public OpTest {
 protected:
  const cpu::Kernels& kernels() const {
    const cpu::KernelList list = cpu::runnable_kernels();
    int i = 0;
    while (list.sets[i]->instruction_set != GetParam()) ++i;
    return *list.sets[i];
  }
};
INSTANTIATE_TEST_SUITE_P(Sets, KernelsTest, testing::ValuesIn(instruction_sets()),
                         [](const auto& info) { return info.param; });

TEST_P(KernelsTest, TheTableIsWhole) {
  const OpTable& t = ctx.ops;
  EXPECT_EQ(t.backend, "cpu");
  EXPECT_EQ(t.device, &host_device());
  EXPECT_GT(t.default_batched_tokens, 0);
  EXPECT_TRUE(t.workspace_bytes && t.weight_bytes && t.store_weight && t.kv_block_bytes && t.embedding &&
              t.linear && t.rms_norm && t.add_rms_norm && t.rope && t.silu_and_mul && t.store_kv &&
              t.copy_blocks && t.attention && t.gather_rows && t.sample);
  const cpu::Kernels& k = kernels();
  EXPECT_TRUE(k.linear && k.attention && k.rms_norm && k.add_rms_norm && k.rope && k.silu_and_mul &&
              k.row_max && k.sum_row_weights && k.weigh && k.sum_weights);
}

// The memory plan reserves workspace_bytes for an op inside a step.
TEST_P(KernelsTest, OpsTakeNoMoreThanTheirWorkspace) {
  for (int threads : {1, 2, 5}) {
    for (int rows : {1, 4, 9}) {
      OpContext sampling(ctx.ops, threads), attending(ctx.ops, threads);
      const std::vector<SampleCase> cases(size_t(rows),
                                          {.logits = std::vector<float>(333, 1.0f), .top_k = 5});
      sample_rows(sampling.ctx, cases);
      EXPECT_GT(sampling.arena.peak(), 0u);
      EXPECT_LE(sampling.arena.peak(),
                ctx.ops.workspace_bytes({.num_threads = threads, .num_seqs = rows, .vocab_size = 333}));
      EXPECT_EQ(sampling.arena.used(), 0u);

      for (const int block_size : {16, 1}) {
        const AttentionShape shape{.block_size = block_size};
        const AttentionSequence sequence(shape, 5, 1);
        PagedCache cache(attending.ctx, shape, 5);
        cache.store({&sequence, 0, 5});
        cache.attend(std::vector<PagedCache::Part>(size_t(rows), {&sequence, 2, 5}));
        EXPECT_LE(attending.arena.peak(), ctx.ops.workspace_bytes({.num_threads = threads,
                                                                   .num_seqs = rows,
                                                                   .max_blocks = 5,
                                                                   .vocab_size = 1,
                                                                   .block_size = block_size,
                                                                   .head_dim = shape.head_dim}));
        EXPECT_EQ(attending.arena.used(), 0u);
      }
    }
  }
}

TEST_P(KernelsTest, RowMaxIsTheLargestOrNan) {
  for (int64_t n : {1, 15, 16, 17, 31, 32, 33, 100}) {
    const Floats x = random_floats({n}, uint32_t(n));
    EXPECT_EQ(kernels().row_max(x.data(), n), *std::max_element(x.data(), x.data() + n));
    for (int64_t i = 0; i < n; ++i) {
      Floats changed = x;
      changed[size_t(i)] = 9;
      EXPECT_EQ(kernels().row_max(changed.data(), n), 9.0f) << i << " of " << n;
      for (float bad : {kNan, -kNan, kInfinity}) {
        changed[size_t(i)] = bad;
        EXPECT_TRUE(std::isnan(kernels().row_max(changed.data(), n))) << i << " of " << n;
      }
      changed[size_t(i)] = -kInfinity;
      EXPECT_EQ(std::isfinite(kernels().row_max(changed.data(), n)), n > 1);
    }
  }
}

TEST(KernelsDeathTest, AHeadWiderThan256IsABug) {  // an architecture is refused before (models/)
  OpContext op(cpu_ops(), 1);
  const AttentionShape shape{1, 1, 272, 16};
  const AttentionSequence sequence(shape, 1, 1);
  EXPECT_DEATH(whole_prefill(op.ctx, shape, sequence), "head_dim <= 256");
}

}  // namespace
}  // namespace nanovllm
