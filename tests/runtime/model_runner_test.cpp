#include "runtime/model_runner.h"

#include <gtest/gtest.h>

#include <limits>

#include "engine/allocation_count.h"
#include "models/golden.h"
#include "models/tiny_model.h"

namespace nanovllm {
namespace {

using Ids = std::vector<TokenId>;

const Ids kPrompt{3, 141, 59, 26, 53, 58, 97, 93, 238, 46, 264, 33, 83, 279, 50, 288, 41, 97, 16, 93};

std::unique_ptr<ModelRunner> golden_runner(const std::string& model, const RunnerConfig& config) {
  return std::make_unique<ModelRunner>(test::golden(model), read_model_config(test::golden(model)), config);
}
std::unique_ptr<ModelRunner> golden_runner(const std::string& model) {
  return golden_runner(model, test::small_runner());
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Computes all that a sequence has not, and appends what is sampled. The greedy tokens of a prompt, one by
// one.
class Greedy {
 public:
  Greedy(ModelRunner& runner, const Ids& prompt, int first_block = 0)
      : runner_(runner), sequence_(test::make_sequence(prompt, first_block, 4)) {
    sequence_.params.temperature = 0;
  }
  TokenId next() {
    sequence_.num_scheduled_tokens = sequence_.num_uncomputed_tokens();
    build_batch({&sequence_}, 16, batch_);
    const TokenId id = runner_.run(batch_)[0];
    sequence_.num_computed_tokens = sequence_.num_tokens();
    sequence_.token_ids.push_back(id);
    return id;
  }
  Ids take(int count) {
    Ids ids;
    for (int i = 0; i < count; ++i) ids.push_back(next());
    return ids;
  }

 private:
  ModelRunner& runner_;
  Sequence sequence_;
  Batch batch_;
};

TEST(ModelRunner, GreedyIsTheLargestLogit) {
  const auto runner = golden_runner("qwen3-untied-f32");
  const std::vector<float> logits = test::run_prompt(*runner, kPrompt, 7).logits;
  const auto last = logits.end() - runner->model().config().vocab_size;
  EXPECT_EQ(Greedy(*runner, kPrompt).next(), std::max_element(last, logits.end()) - last);
}

TEST(ModelRunner, AStepOfOnlyPromptChunksSamplesNothing) {
  const auto runner = golden_runner("qwen3-tied-bf16");
  Sequence a = test::make_sequence(kPrompt, 0, 2), b = test::make_sequence(kPrompt, 2, 2);
  a.num_scheduled_tokens = 19;
  b.num_scheduled_tokens = 1;
  Batch batch;
  build_batch({&a, &b}, 16, batch);
  EXPECT_TRUE(runner->run(batch).empty());
  EXPECT_EQ(runner->num_logits_rows(), 0);
  a.num_computed_tokens = 19;
  a.num_scheduled_tokens = 1;
  build_batch({&a}, 16, batch);
  EXPECT_EQ(runner->run(batch).size(), 1u);
  EXPECT_EQ(runner->num_logits_rows(), 1);
}

TEST(ModelRunner, EveryTokenOfAStepMayBeSampled) {
  const auto runner = golden_runner("qwen3-tied-bf16");
  const std::vector<float> logits = test::run_prompt(*runner, kPrompt, 20).logits;
  Sequence sequence = test::make_sequence(kPrompt, 0, 2);
  sequence.num_scheduled_tokens = int(kPrompt.size());
  Batch batch;
  build_batch({&sequence}, 16, batch);
  want_logits(batch, 0, batch.num_tokens());
  const std::span<const TokenId> ids = runner->run(batch);  // more rows than sequences may run
  ASSERT_EQ(ids.size(), kPrompt.size());
  const auto vocab = runner->model().config().vocab_size;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto row = logits.begin() + int64_t(i) * vocab;
    EXPECT_EQ(ids[i], std::max_element(row, row + vocab) - row);
  }
}

TEST(ModelRunner, TwoModelsInOneProcessGiveWhatEachGivesAlone) {
  const std::string names[] = {"qwen3-tied-bf16", "qwen3-head128-gqa8-bf16"};
  Ids alone[2];
  for (int i = 0; i < 2; ++i) alone[i] = Greedy(*golden_runner(names[i]), kPrompt).take(12);
  EXPECT_NE(alone[0], alone[1]);

  const auto first = golden_runner(names[0]), second = golden_runner(names[1]);
  Greedy a(*first, kPrompt), b(*second, kPrompt);
  Ids together[2];
  for (int i = 0; i < 12; ++i) {
    together[0].push_back(a.next());
    together[1].push_back(b.next());
  }
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_EQ(together[1], alone[1]);
}

TEST(ModelRunner, ThreadsAndInstructionSetsChangeNoBit) {
  const std::vector<float> want =
      test::run_prompt(*golden_runner("qwen3-tied-bf16", test::small_runner(cpu_ops("portable"), 1)), kPrompt,
                       20)
          .logits;
  const cpu::KernelList runnable = cpu::runnable_kernels();
  for (int i = 0; i < runnable.count; ++i) {
    for (const int num_threads : {1, 2, 3}) {
      const auto runner = golden_runner(
          "qwen3-tied-bf16", test::small_runner(cpu_ops(runnable.sets[i]->instruction_set), num_threads));
      EXPECT_EQ(runner->num_threads(), num_threads);
      EXPECT_TRUE(same_bits(test::run_prompt(*runner, kPrompt, 20).logits, want))
          << runnable.sets[i]->instruction_set << ", " << num_threads << " threads";
    }
  }
}

TEST(ModelRunner, OtherBlocksAndBlockSizesChangeNoBit) {
  const auto logits_of = [](int block_size, const std::vector<int32_t>& blocks) {
    RunnerConfig config = test::small_runner();
    config.block_size = block_size;
    const auto runner = golden_runner("qwen3-untied-f32", config);
    Sequence sequence = test::make_sequence(kPrompt, 0, 0);
    sequence.block_table = blocks;
    sequence.num_scheduled_tokens = int(kPrompt.size());
    Batch batch;
    build_batch({&sequence}, block_size, batch);
    const Tensor logits = runner->run_logits(batch);
    return std::vector<float>(logits.ptr<float>(), logits.ptr<float>() + logits.num_elements());
  };
  const std::vector<float> want = logits_of(16, {0, 1});
  EXPECT_TRUE(same_bits(logits_of(16, {127, 3}), want));
  EXPECT_TRUE(same_bits(logits_of(32, {9}), want));
  EXPECT_TRUE(same_bits(logits_of(256, {4}), want));
}

TEST(ModelRunner, PaddedIdsAreNeverSampled) {
  RunnerConfig config = test::small_runner();
  config.num_valid_tokens = 20;
  const auto runner = golden_runner("qwen3-tied-bf16", config);
  const std::vector<float> logits = test::run_prompt(*runner, kPrompt, 20).logits;
  const auto last = logits.end() - runner->model().config().vocab_size;
  EXPECT_EQ(Greedy(*runner, kPrompt).next(), std::max_element(last, last + 20) - last);
  for (const TokenId id : Greedy(*runner, kPrompt).take(12)) EXPECT_LT(id, 20);
  config.num_valid_tokens = 1 << 20;  // a tokenizer cannot know more than the model: all are valid
  EXPECT_EQ(Greedy(*golden_runner("qwen3-tied-bf16", config), kPrompt).take(12),
            Greedy(*golden_runner("qwen3-tied-bf16"), kPrompt).take(12));
}

TEST(ModelRunner, AStepAllocatesNothing) {
  const auto runner = golden_runner("qwen3-tied-bf16");
  Sequence prompt = test::make_sequence(kPrompt, 0, 4), decode = test::make_sequence(kPrompt, 4, 4);
  prompt.params.top_k = 5;
  decode.params.top_p = 0.5f;
  prompt.num_scheduled_tokens = prompt.num_tokens();
  decode.num_computed_tokens = decode.num_tokens() - 1;
  decode.num_scheduled_tokens = 1;
  Batch batch;
  build_batch({&decode, &prompt}, 16, batch);
  const size_t before = test::num_allocations();
  for (int i = 0; i < 3; ++i) runner->run(batch);
  EXPECT_EQ(test::num_allocations() - before, 0u);
}

std::vector<float> tiny_logits(const std::vector<test::NamedTensor>& tensors, size_t misalignment = 0) {
  test::ScratchFolder folder;
  test::write_tiny_model(folder, tensors, misalignment);
  RunnerConfig config = test::small_runner();
  config.max_model_len = 64;
  ModelRunner runner(folder.path(), read_model_config(folder.path()), config);
  return test::run_prompt(runner, {4, 20, 7, 0, 13}, 2).logits;
}

TEST(ModelRunner, TheDtypeOfTheFileChangesNoBit) {
  const std::vector<float> f32 = tiny_logits(test::tiny_checkpoint());
  EXPECT_GT(test::largest(f32), 0.1f);
  EXPECT_TRUE(same_bits(tiny_logits(test::tiny_checkpoint(), 3), f32));
  for (const DType dtype : {DType::kF16, DType::kBF16})
    EXPECT_TRUE(same_bits(tiny_logits(test::tiny_checkpoint_in([=](auto&) { return dtype; }), 1), f32));
  EXPECT_TRUE(same_bits(tiny_logits(test::tiny_checkpoint_in([](const std::string& name) {
                          if (name.find("norm") != std::string::npos) return DType::kF32;
                          return name.find("k_proj") != std::string::npos ? DType::kF16 : DType::kBF16;
                        })),
                        f32));
}

// One token's embedding is no number: only the sequence that has it ends in error.
TEST(ModelRunner, ARowWithoutNumbersIsNegativeAndItsNeighboursAreUnchanged) {
  std::vector<test::NamedTensor> tensors = test::tiny_checkpoint();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(tensors[0].bytes.data() + 13 * 8 * sizeof(float), &nan, sizeof nan);  // token 13
  test::ScratchFolder folder;
  test::write_tiny_model(folder, tensors);
  RunnerConfig config = test::small_runner();
  config.max_model_len = 64;
  ModelRunner runner(folder.path(), read_model_config(folder.path()), config);
  for (const float temperature : {0.0f, 1.0f}) {
    std::vector<Sequence> sequences;
    for (int i = 0; i < 8; ++i) {
      sequences.push_back(test::make_sequence({4, i == 3 ? 13 : 12, TokenId(i)}, i, 1));
      sequences.back().params.temperature = temperature;
      sequences.back().num_scheduled_tokens = 3;
    }
    std::vector<Sequence*> scheduled;
    for (Sequence& sequence : sequences) scheduled.push_back(&sequence);
    Batch batch;
    build_batch(scheduled, 16, batch);
    const std::span<const TokenId> ids = runner.run(batch);
    const Ids together(ids.begin(), ids.end());
    for (size_t i = 0; i < 8; ++i) {
      build_batch({&sequences[i]}, 16, batch);
      EXPECT_EQ(together[i], runner.run(batch)[0]);
      EXPECT_EQ(together[i] < 0, i == 3);
    }
  }
}

TEST(ModelRunner, SaysWhatIsWrongWithTheFolder) {
  test::ScratchFolder folder;
  folder.write("config.json", test::kTinyConfig);
  const ModelConfig config = read_model_config(folder.path());
  const auto load = [&] { ModelRunner(folder.path(), config, test::small_runner()); };
  test::expect_error(ErrorKind::kCheckpoint, folder.path().string() + ": no weights", load);
  test::write_tiny_model(folder, test::tiny_checkpoint(false));
  test::expect_error(ErrorKind::kCheckpoint, folder.path().string() + ": has no lm_head.weight", load);
}

}  // namespace
}  // namespace nanovllm
