// A model on several ranks: what they compute, exchange, hold, and how they fail.
#include <gtest/gtest.h>

#include "engine/allocation_count.h"
#include "models/golden.h"
#include "models/tiny_model.h"
#include "runtime/model_runner.h"

namespace nanovllm {
namespace {

using Ids = std::vector<TokenId>;

const Ids kPrompt{3, 14, 15, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6};

class TinyRanks : public testing::Test {
 protected:
  std::unique_ptr<ModelRunner> runner(int size, const std::vector<test::NamedTensor>& tensors,
                                      const std::string& config = test::kTinyConfig) {
    test::write_tiny_model(folder_, tensors, 0, config);
    RunnerConfig runner_config = test::small_runner(cpu_ops(), 2, size);
    runner_config.max_model_len = 64;
    return std::make_unique<ModelRunner>(folder_.path(), read_model_config(folder_.path()), runner_config);
  }
  std::unique_ptr<ModelRunner> runner(int size) { return runner(size, test::tiny_checkpoint()); }

  test::ScratchFolder folder_;
};

std::vector<float> logits_of(ModelRunner& runner) { return test::run_prompt(runner, kPrompt, 4).logits; }

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// 21 tokens and 2 kv heads: padding, and kv heads that ranks share.
TEST_F(TinyRanks, GiveTheBitsOfOne) {
  const std::vector<float> want = logits_of(*runner(1));
  EXPECT_EQ(want.size(), kPrompt.size() * 21);
  EXPECT_GT(test::largest(want), 0.1f);
  for (const int size : {2, 4}) EXPECT_TRUE(same_bits(logits_of(*runner(size)), want)) << size;
}

// A bias that every rank added would be added twice.
TEST_F(TinyRanks, GiveTheBitsOfOneWithBiasesEverywhere) {
  const auto with_biases = [&](int size) {
    return logits_of(*runner(size, test::tiny_bias_checkpoint(), test::kTinyBiasConfig));
  };
  const std::vector<float> want = with_biases(1);
  for (const int size : {2, 4}) EXPECT_TRUE(same_bits(with_biases(size), want)) << size;

  std::vector<test::NamedTensor> no_o_bias = test::tiny_bias_checkpoint();
  for (test::NamedTensor& tensor : no_o_bias)
    if (tensor.name.ends_with("o_proj.bias")) std::fill(tensor.bytes.begin(), tensor.bytes.end(), 0);
  EXPECT_FALSE(same_bits(logits_of(*runner(1, no_o_bias, test::kTinyBiasConfig)), want));  // it counts
}

TEST_F(TinyRanks, ATiedHeadOfAnOddVocabulary) {
  std::string config = test::kTinyConfig;
  config.replace(config.find("\"tie_word_embeddings\": false"), 28, "\"tie_word_embeddings\": true");
  const std::vector<float> want = logits_of(*runner(1, test::tiny_checkpoint(false), config));
  for (const int size : {2, 4}) {
    const auto ranks = runner(size, test::tiny_checkpoint(false), config);
    EXPECT_TRUE(same_bits(logits_of(*ranks), want)) << size;
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(ranks->model(rank).lm_head().weight().data,
                ranks->model(rank).embed_tokens().parameter().weight().data);
  }
}

// Sampled ids come from rank 0 alone, so that no two ranks can disagree.
TEST_F(TinyRanks, SampleWhatOneSamples) {
  std::vector<Ids> answers;
  for (const int size : {1, 2, 4}) {
    const auto ranks = runner(size);
    Sequence sequence = test::make_sequence(kPrompt, 0, 4);
    sequence.params.temperature = 1;
    sequence.seed = 7;
    Batch batch;
    Ids answer;
    for (int i = 0; i < 30; ++i) {
      sequence.num_scheduled_tokens = sequence.num_uncomputed_tokens();
      build_batch({&sequence}, 16, batch);
      answer.push_back(ranks->run(batch)[0]);
      sequence.num_computed_tokens = sequence.num_tokens();
      sequence.token_ids.push_back(answer.back());
    }
    answers.push_back(answer);
  }
  EXPECT_EQ(answers[1], answers[0]);
  EXPECT_EQ(answers[2], answers[0]);
}

Batch step_of(Sequence& sequence, int num_tokens) {
  Batch batch;
  sequence.num_scheduled_tokens = num_tokens;
  build_batch({&sequence}, 16, batch);
  return batch;
}

// One all-reduce for the embedding, two a layer, one gather; the Batch goes out and the ids come back with the run.
TEST_F(TinyRanks, ExchangeNoMoreThanTheyMust) {
  for (const int size : {2, 4}) {
    const auto ranks = runner(size);
    Sequence sequence = test::make_sequence(kPrompt, 0, 4);
    const auto before = ranks->exchanges();
    const auto expect_after = [&](int64_t runs, int64_t all_reduces, int64_t gathers) {
      EXPECT_EQ(ranks->exchanges().runs - before.runs, runs);
      EXPECT_EQ(ranks->exchanges().all_reduces - before.all_reduces, all_reduces);
      EXPECT_EQ(ranks->exchanges().gathers - before.gathers, gathers);
    };
    ranks->run(step_of(sequence, 4));  // a chunk of the prompt: no logits
    expect_after(1, 5, 0);
    sequence.num_computed_tokens = 4;
    ranks->run(step_of(sequence, sequence.num_uncomputed_tokens()));
    expect_after(2, 10, 1);
  }
}

TEST_F(TinyRanks, AStepAllocatesNothing) {
  const auto ranks = runner(4);
  Sequence sequence = test::make_sequence(kPrompt, 0, 4);
  const Batch batch = step_of(sequence, int(kPrompt.size()));
  ranks->run(batch);
  const size_t before = test::num_allocations();
  for (int i = 0; i < 3; ++i) ranks->run(batch);
  EXPECT_EQ(test::num_allocations() - before, 0u);
}

// Norms are on every rank, and nothing else twice: kv heads are shared only where there are fewer than ranks.
TEST_F(TinyRanks, ShareTheWeightsAndTheCache) {
  const auto rows_of = [](const ModelRunner& runner, int rank, const std::string& part) {
    int64_t elements = 0;
    runner.model(rank).visit_parameters([&](const Parameter& parameter) {
      if (parameter.parts()[0].name == part) elements = parameter.rows() * parameter.in_features();
    });
    return elements;
  };
  const std::string layer = "model.layers.1.";
  for (const int size : {1, 2, 4}) {
    const auto ranks = runner(size);
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(rows_of(*ranks, rank, layer + "self_attn.q_proj.weight"),
                (16 / size + 2 * std::max(4, 8 / size)) * 8);
      EXPECT_EQ(rows_of(*ranks, rank, layer + "self_attn.o_proj.weight"), 8 * 16 / size);
      EXPECT_EQ(rows_of(*ranks, rank, layer + "mlp.gate_proj.weight"), 24 / size * 8);
      EXPECT_EQ(rows_of(*ranks, rank, layer + "mlp.down_proj.weight"), 8 * 12 / size);
      EXPECT_EQ(rows_of(*ranks, rank, layer + "self_attn.q_norm.weight"), 4);
      EXPECT_EQ(rows_of(*ranks, rank, "lm_head.weight"), (21 + size - 1) / size * 8);
      EXPECT_EQ(ranks->model(rank).num_kv_heads(), size == 4 ? 1 : 2 / size);
    }
    const size_t one_head = ranks->memory_plan().kv_block_bytes / size_t(std::max(2, size));
    EXPECT_EQ(one_head, KvCache::block_bytes(cpu_ops(), ranks->model().config(), 1, 16));
  }
}

TEST_F(TinyRanks, ThreadsAreSharedOut) {
  for (const auto& [size, threads, want] :
       std::vector<std::tuple<int, int, int>>{{1, 3, 3}, {2, 4, 4}, {2, 5, 4}, {2, 1, 2}, {4, 2, 4}}) {
    test::write_tiny_model(folder_, test::tiny_checkpoint());
    RunnerConfig config = test::small_runner(cpu_ops(), threads, size);
    config.max_model_len = 64;
    EXPECT_EQ(ModelRunner(folder_.path(), read_model_config(folder_.path()), config).num_threads(), want);
  }
}

TEST_F(TinyRanks, ThePlanIsWhatTheLargestStepTakes) {
  for (const int size : {2, 4}) {
    test::write_tiny_model(folder_, test::tiny_checkpoint());
    RunnerConfig config = test::small_runner(cpu_ops(), 2, size);
    config.max_model_len = 64;
    config.max_num_batched_tokens = 64;
    ModelRunner ranks(folder_.path(), read_model_config(folder_.path()), config);
    Sequence sequence = test::make_sequence(Ids(64, 5), 0, 4);
    Batch batch = step_of(sequence, 64);
    want_logits(batch, 0, batch.num_tokens());
    ranks.run(batch);
    EXPECT_LE(ranks.arena_peak(), ranks.memory_plan().activation_bytes);
  }
}

// An error on one rank is the error of the run, and of every later one: the ranks cannot be brought together again.
TEST_F(TinyRanks, ARankThatFailsFailsTheRun) {
  const auto ranks = runner(2);
  Sequence sequence = test::make_sequence(kPrompt, 0, 4);
  const Batch batch = step_of(sequence, int(kPrompt.size()));
  const TraceHook hook = [](std::string_view name, int layer, const Tensor&) {
    if (name == "self_attn.attn" && layer == 1) fail(ErrorKind::kDevice, "the device is gone");
  };
  ranks->set_trace(&hook);
  test::expect_error(ErrorKind::kDevice, "rank 0 of 2: the device is gone", [&] { ranks->run(batch); });
  ranks->set_trace(nullptr);
  test::expect_error(ErrorKind::kDevice, "rank 0 of 2: the device is gone", [&] { ranks->run(batch); });
}

// One op that fails on rank 1, in a step or while loading.
template <class Args>
void fail_on_rank_1(Context& ctx, const Args&) {
  if (ctx.comm.rank() == 1) fail(ErrorKind::kDevice, "the device is gone");
}

TEST_F(TinyRanks, AnotherRankThatFailsIsNamed) {
  test::write_tiny_model(folder_, test::tiny_checkpoint());
  const ModelConfig model_config = read_model_config(folder_.path());
  for (const int size : {2, 4}) {
    const std::string text = "rank 1 of " + std::to_string(size) + ": the device is gone";
    OpTable ops = cpu_ops();
    RunnerConfig config = test::small_runner(ops, 2, size);
    config.max_model_len = 64;
    ops.silu_and_mul = fail_on_rank_1<SiluAndMulArgs>;
    Sequence sequence = test::make_sequence(kPrompt, 0, 4);
    const Batch batch = step_of(sequence, int(kPrompt.size()));
    ModelRunner runner(folder_.path(), model_config, config);
    for (int i = 0; i < 2; ++i) test::expect_error(ErrorKind::kDevice, text, [&] { runner.run(batch); });

    ops.store_weight = fail_on_rank_1<StoreWeightArgs>;
    test::expect_error(ErrorKind::kDevice, text, [&] { ModelRunner(folder_.path(), model_config, config); });
  }
}

TEST_F(TinyRanks, AModelThatCannotBeSplitSaysOverHowManyItCan) {
  std::string config = test::kTinyConfig;
  config.replace(config.find("\"intermediate_size\": 12"), 23, "\"intermediate_size\": 13");
  test::write_tiny_model(folder_, test::tiny_checkpoint(), 0, config);
  test::expect_error(
      ErrorKind::kUnsupported, "tensor_parallel_size: is 2, want 1 for this model: it has", [&] {
        ModelRunner(folder_.path(), read_model_config(folder_.path()), test::small_runner(cpu_ops(), 2, 2));
      });
  test::expect_error(ErrorKind::kConfig, "tensor_parallel_size: is 3, want 1, 2 or 4", [&] { runner(3); });
}

TEST_F(TinyRanks, LoadingFailsAsOnOne) {
  const auto tensors = test::tiny_checkpoint(false);
  for (const int size : {1, 2, 4})
    test::expect_error(ErrorKind::kCheckpoint,
                       folder_.path().string() + ": has no lm_head.weight, which Qwen3ForCausalLM needs",
                       [&] { runner(size, tensors); });
}

}  // namespace
}  // namespace nanovllm
