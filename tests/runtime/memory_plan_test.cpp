#include "runtime/memory_plan.h"

#include <gtest/gtest.h>

#include "models/golden.h"
#include "models/tiny_model.h"
#include "ops/cpu/panels.h"

namespace nanovllm {
namespace {

// 2 layers, 2 kv heads of 4: a head's values are padded to 16 floats.
constexpr size_t kTinyBlockBytes = size_t{2} * 2 * 2 * 16 * 16 * 4;

class MemoryPlanTest : public testing::Test {
 protected:
  MemoryPlanTest() { test::write_tiny_model(folder_, test::tiny_checkpoint()); }

  ModelRunner make_runner(const RunnerConfig& config) const {
    return ModelRunner(folder_.path(), read_model_config(folder_.path()), config);
  }
  MemoryPlan plan(const RunnerConfig& config) const { return make_runner(config).memory_plan(); }

  test::ScratchFolder folder_;
  RunnerConfig config_{.ops = &cpu_ops(),
                       .num_threads = 2,
                       .max_num_seqs = 3,
                       .max_num_batched_tokens = 20,
                       .max_model_len = 40,
                       .block_size = 16,
                       .num_blocks = 9};
};

TEST_F(MemoryPlanTest, WeightsAreTheParametersAndTheRopeTable) {
  using cpu::kPanelWidth;
  const ModelRunner runner = make_runner(config_);
  int64_t rows_in_panels = 0;
  const auto matrix = [&](int64_t rows, int64_t in_features) {
    rows_in_panels += (rows + kPanelWidth - 1) / kPanelWidth * kPanelWidth * in_features;
  };
  for (int layer = 0; layer < 2; ++layer) matrix(32, 8), matrix(8, 16), matrix(24, 8), matrix(8, 12);
  matrix(21, 8), matrix(21, 8);
  const int64_t vectors = 2 * (8 + 8 + 4 + 4) + 8, rope = 40 * 4;
  EXPECT_EQ(runner.memory_plan().weight_bytes, size_t(rows_in_panels + vectors + rope) * 4);
}

TEST_F(MemoryPlanTest, AskedForBlocksAreGiven) {
  EXPECT_EQ(plan(config_).num_blocks, 9);
  EXPECT_EQ(plan(config_).kv_block_bytes, kTinyBlockBytes);
  config_.max_kv_bytes = 1;  // num_blocks goes first
  EXPECT_EQ(plan(config_).num_blocks, 9);
}

TEST_F(MemoryPlanTest, BlocksAreWhatTheBytesHold) {
  config_.num_blocks = 0;
  for (const int fit : {1, 2, 8}) {
    config_.max_kv_bytes = size_t(fit) * kTinyBlockBytes;
    EXPECT_EQ(plan(config_).num_blocks, fit);
    config_.max_kv_bytes += kTinyBlockBytes - 1;
    EXPECT_EQ(plan(config_).num_blocks, fit);
  }
}

TEST_F(MemoryPlanTest, NoMoreBlocksThanAllSequencesCanUse) {
  config_.num_blocks = 0;
  config_.max_kv_bytes = 100 * kTinyBlockBytes;
  EXPECT_EQ(plan(config_).num_blocks, 3 * 3);  // 3 sequences of 40 tokens in blocks of 16
  config_.max_model_len = 48;
  EXPECT_EQ(plan(config_).num_blocks, 3 * 3);
  config_.max_model_len = 49;
  EXPECT_EQ(plan(config_).num_blocks, 3 * 4);
  config_.max_kv_bytes = 0;  // a part of the machine's memory: plenty for these
  EXPECT_EQ(plan(config_).num_blocks, 3 * 4);
}

TEST_F(MemoryPlanTest, NotOneBlockFits) {
  config_.num_blocks = 0;
  config_.max_kv_bytes = kTinyBlockBytes - 1;
  test::expect_error(ErrorKind::kOutOfMemory,
                     "KV cache: has 0 MiB, want at least 1 MiB for one block of 16 tokens",
                     [&] { plan(config_); });
}

TEST_F(MemoryPlanTest, ASlotIsAnInt32) {
  config_.num_blocks = INT32_MAX / 16 + 1;
  test::expect_error(ErrorKind::kConfig,
                     "num_kvcache_blocks: is 134217728, want at most 134217727 of 16 tokens",
                     [&] { plan(config_); });
}

TEST_F(MemoryPlanTest, BlocksHoldWholeGroupsOf16) {
  for (const int block_size : {1, 8, 15, 16}) {
    config_.block_size = block_size;
    EXPECT_EQ(plan(config_).kv_block_bytes, kTinyBlockBytes);
  }
  for (const int block_size : {16, 32, 48, 256}) {
    config_.block_size = block_size;
    EXPECT_EQ(plan(config_).kv_block_bytes, kTinyBlockBytes / 16 * size_t(block_size));
  }
}

TEST_F(MemoryPlanTest, TheHostHasNoDriver) {
  const ModelRunner runner = make_runner(config_);
  const MemoryPlan& plan = runner.memory_plan();
  EXPECT_EQ(plan.driver_bytes, 0u);
  EXPECT_GT(plan.input_bytes, 0u);
  EXPECT_EQ(plan.total(), plan.weight_bytes + plan.activation_bytes + plan.input_bytes + 9 * kTinyBlockBytes);
  EXPECT_EQ(runner.memory_used(), 0u);
}

TEST_F(MemoryPlanTest, ADriverTakesPagesForEachLayerAndMemoryForEachGraph) {
  const ModelConfig model = read_model_config(folder_.path());
  ModelConfig deeper = model;
  deeper.num_layers += 3;
  EXPECT_EQ(estimate_driver_bytes(deeper, 0) - estimate_driver_bytes(model, 0), size_t{3} * 2 * (2 << 20));
  EXPECT_EQ(estimate_driver_bytes(model, 5) - estimate_driver_bytes(model, 0),
            size_t{5} * (2 * 10 + 20) * 4096);
}

// Runs the largest step that the limits allow: every sequence sampled, by every filter, and every token
// taken.
size_t peak_of_largest_step(ModelRunner& runner, const RunnerConfig& config) {
  std::vector<Sequence> sequences;
  for (int i = 0; i < config.max_num_seqs; ++i) {
    const int rest = config.max_num_batched_tokens - (config.max_num_seqs - 1);
    const int length = i == 0 ? rest : 1;
    sequences.push_back(test::make_sequence(std::vector<TokenId>(size_t(length), 5), 2 * i,
                                            (length + config.block_size - 1) / config.block_size));
    sequences.back().params = {.temperature = 1, .top_k = 3, .top_p = 0.9f};
    sequences.back().num_scheduled_tokens = length;
  }
  std::vector<Sequence*> scheduled;
  for (Sequence& sequence : sequences) scheduled.push_back(&sequence);
  Batch batch;
  build_batch(scheduled, config.block_size, batch);
  EXPECT_EQ(batch.num_tokens(), config.max_num_batched_tokens);
  EXPECT_EQ(runner.run(batch).size(), size_t(config.max_num_seqs));
  return runner.arena_peak();
}

TEST(MemoryPlan, TheLargestStepTakesWhatWasMeasured) {
  for (const char* model : {"qwen3-tied-bf16", "qwen3-untied-f32", "qwen3-head128-gqa8-bf16"}) {
    for (const auto& [num_seqs, num_tokens] :
         std::vector<std::pair<int, int>>{{1, 1}, {4, 4}, {2, 37}, {30, 61}}) {
      RunnerConfig config{.ops = &cpu_ops(),
                          .num_threads = 2,
                          .max_num_seqs = num_seqs,
                          .max_num_batched_tokens = num_tokens,
                          .max_model_len = 64,
                          .block_size = 32,
                          .num_blocks = 64};
      ModelRunner runner(test::golden(model), read_model_config(test::golden(model)), config);
      const size_t planned = runner.memory_plan().activation_bytes;
      EXPECT_EQ(planned, measure_activations(cpu_ops(), runner.model(), {},
                                             {.max_num_tokens = num_tokens,
                                              .max_num_seqs = num_seqs,
                                              .max_num_sampled = num_seqs,
                                              .max_blocks = 2,
                                              .block_size = 32},
                                             2));
      const size_t workspace = cpu_ops().workspace_bytes(
          {.num_threads = 2, .num_seqs = num_seqs, .vocab_size = runner.model().config().vocab_size});
      const size_t taken = peak_of_largest_step(runner, config);
      EXPECT_LE(taken, planned) << model << " " << num_tokens;
      EXPECT_GE(taken, planned - workspace) << model << " " << num_tokens;
      EXPECT_EQ(peak_of_largest_step(runner, config), taken);  // a step leaves nothing behind
    }
  }
}

// As in real models, the logits are the largest thing of all.
TEST(MemoryPlan, LogitsOfALargeVocabularyArePlanned) {
  constexpr int64_t kVocab = 4000;
  std::vector<test::NamedTensor> tensors = test::tiny_checkpoint();
  for (test::NamedTensor& tensor : tensors)
    if (tensor.shape[0] == 21)
      tensor =
          test::named_tensor(tensor.name, "F32", {kVocab, 8}, std::vector<float>(size_t{kVocab} * 8, 0.5f));
  test::ScratchFolder folder;
  test::write_tiny_model(folder, tensors);
  ModelConfig model_config = read_model_config(folder.path());
  model_config.vocab_size = kVocab;
  const RunnerConfig config{.ops = &cpu_ops(),
                            .num_threads = 2,
                            .max_num_seqs = 9,
                            .max_num_batched_tokens = 9,
                            .max_model_len = 32,
                            .num_blocks = 18};
  ModelRunner runner(folder.path(), model_config, config);
  const size_t workspace = cpu_ops().workspace_bytes({.num_threads = 2, .num_seqs = 9, .vocab_size = kVocab}),
               logits = 9 * kVocab * sizeof(float);
  EXPECT_GE(runner.memory_plan().activation_bytes, workspace + logits);
  EXPECT_LE(peak_of_largest_step(runner, config), runner.memory_plan().activation_bytes);
  EXPECT_GE(runner.arena_peak(), runner.memory_plan().activation_bytes - workspace);

  for (const int size : {2, 4}) {  // rank 0 has its part of the logits and all of them
    RunnerConfig split = config;
    split.tensor_parallel_size = size;
    ModelRunner ranks(folder.path(), model_config, split);
    EXPECT_LE(peak_of_largest_step(ranks, split), ranks.memory_plan().activation_bytes);
    EXPECT_GE(ranks.memory_plan().activation_bytes, 2 * logits);
  }
}

}  // namespace
}  // namespace nanovllm
