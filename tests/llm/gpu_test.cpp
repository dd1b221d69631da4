// The engine on a GPU: memory by arithmetic, and what it says when there is too little. Skipped where there is none.
#include <iostream>
#include <thread>

#include "llm/llm.h"
#include "models/golden.h"
#include "ops/cuda/cuda_ops.h"
#include "parallel/thread_ranks.h"
#include "runtime/model_runner.h"

namespace nanovllm {
namespace {

class LlmOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_unavailable().empty()) GTEST_SKIP() << cuda_unavailable();
  }

  EngineConfig config(double share = 0.9) const {
    return {.model = test::demo_model(), .device = "cuda", .num_threads = 1, .gpu_memory_utilization = share};
  }
};

TEST_F(LlmOnGpu, TakesNoMoreThanItsShare) {
  const Memory before = cuda_device().memory();
  const double others = double(before.total - before.available);
  const double share = (others + 2e9) / double(before.total);
  const LLM llm(config(share));
  const Memory after = cuda_device().memory();
  // The driver gives memory in pieces of 2 MiB: one for each of two buffers a layer, and some for weights.
  EXPECT_LE(double(after.total - after.available), share * double(after.total) + 256e6);
  const MemoryPlan& plan = llm.runner().memory_plan();
  EXPECT_GT(double(plan.num_blocks) * double(plan.kv_block_bytes), 1e9);
}

TEST_F(LlmOnGpu, TooSmallAShareIsRefusedWithTheNumbers) {
  test::expect_error(ErrorKind::kOutOfMemory, "gpu_memory_utilization: is 0.0001, ",
                     [&] { LLM llm(config(0.0001)); });
}

TEST_F(LlmOnGpu, MoreBlocksThanMemoryIsAnError) {
  EngineConfig many = config();
  many.num_kvcache_blocks = 1 << 20;
  test::expect_error(ErrorKind::kOutOfMemory, "num_kvcache_blocks: is 1048576, which with activations takes ",
                     [&] { LLM llm(many); });
  LLM llm(config());  // and what had been taken is given back
}

TEST_F(LlmOnGpu, WhatOnlyTheCpuHasIsRefused) {
  EngineConfig wrong = config();
  wrong.tensor_parallel_size = 2;
  test::expect_error(ErrorKind::kUnsupported, "tensor_parallel_size: is 2, want 1 with device cuda",
                     [&] { LLM llm(wrong); });
  wrong = config();
  wrong.instruction_set = "portable";
  test::expect_error(ErrorKind::kConfig, "instruction_set: is portable, want none with device cuda",
                     [&] { LLM llm(wrong); });
  wrong = config();
  wrong.dtype = "float16";
  test::expect_error(ErrorKind::kUnsupported, "dtype: is float16, and the model's weights are bf16",
                     [&] { LLM llm(wrong); });
}

TEST_F(LlmOnGpu, TwoModelsShareIt) {
  LLM one(config(0.3)), other(config(0.6));
  const std::vector<Prompt> prompts{Prompt(std::string("Once upon a time"))};
  const std::vector<SamplingParams> params{{.temperature = 0, .max_tokens = 20}};
  EXPECT_EQ(one.generate(prompts, params)[0].token_ids, other.generate(prompts, params)[0].token_ids);
}

// One records its steps while the other waits, copies and allocates.
TEST_F(LlmOnGpu, TwoModelsOnTwoThreads) {
  const auto answers = [&] {
    EngineConfig few_blocks = config();
    few_blocks.num_kvcache_blocks = 200;
    LLM llm(few_blocks);
    std::vector<Prompt> prompts;
    for (int i = 0; i < 40; ++i) prompts.emplace_back(std::vector<TokenId>(size_t(1 + i), TokenId(7 + i)));
    const std::vector<SamplingParams> params{{.seed = 3, .max_tokens = 60, .ignore_eos = true}};
    std::vector<std::vector<TokenId>> ids;
    for (const Completion& c : llm.generate(prompts, params)) ids.push_back(c.token_ids);
    return ids;
  };
  const auto want = answers();
  std::vector<std::vector<TokenId>> other;
  std::thread thread([&] { other = answers(); });
  EXPECT_EQ(answers(), want);
  thread.join();
  EXPECT_EQ(other, want);
}

// Step by step beside an engine without graphs, at every batch size up to the largest (the small ones thrice: run, recorded,
// replayed): the same logits, bit for bit.
TEST_F(LlmOnGpu, GraphsChangeNothing) {
  struct Case {
    const char *model, *dtype;
    int block_size;
  };
  // The last two have no plan for attention: the other kernels meet padded rows.
  for (const Case& c : {Case{"", "auto", 0}, Case{"qwen3-head128-gqa8-bf16", "auto", 0}, Case{"", "auto", 8},
                        Case{"", "float32", 0}})
    for (const int most : {1, 3, 20, 100, 256}) {
      if (most > 20 && (c.block_size > 0 || c.dtype == std::string("float32"))) continue;
      EngineConfig eager = config(0.3), graphs = config(0.6);
      if (*c.model) eager.model = graphs.model = test::golden(c.model);
      eager.dtype = graphs.dtype = c.dtype;
      eager.kvcache_block_size = graphs.kvcache_block_size = c.block_size;
      eager.max_num_seqs = graphs.max_num_seqs = most;
      eager.max_model_len = graphs.max_model_len = 300;
      eager.enforce_eager = true;
      eager.async_scheduling = graphs.async_scheduling = "off";  // so that logits() are of the step just made
      LLM a(eager), b(graphs);
      for (int i = 0; i <= most;
           ++i) {  // one more than run at once; each ends a step after the one before it
        const Prompt prompt(std::vector<TokenId>(size_t(1 + i * 7 % 40), TokenId(5 + i)));
        const SamplingParams params{.temperature = i % 2 ? 0.0f : 1.0f,
                                    .seed = uint64_t(i),
                                    .max_tokens = i == 0       ? 400
                                                  : most <= 20 ? 3 * i
                                                               : 1 + i,  // the first: to max_model_len
                                    .ignore_eos = true};
        a.add_request(prompt, params);
        b.add_request(prompt, params);
      }
      int num_wrong = 0;
      while (a.has_unfinished() && b.has_unfinished()) {
        const auto want = a.step(), got = b.step();
        num_wrong += a.runner().logits() != b.runner().logits() || want.size() != got.size();
        for (size_t i = 0; i < std::min(want.size(), got.size()); ++i)
          num_wrong += want[i].token_ids != got[i].token_ids;
      }
      EXPECT_EQ(num_wrong, 0) << c.model << ", " << c.dtype << ", " << most;
      EXPECT_EQ(a.has_unfinished(), b.has_unfinished());
    }
}

// A kernel reads where nothing is: CUDA takes nothing more of this process.
void lose_the_gpu() {
  const OpTable& ops = cuda_ops(DType::kF32);
  Arena none(*ops.device, 0);
  ThreadRanks ranks(1);
  Context ctx{.ops = ops, .arena = none, .comm = ranks.comm(0), .state = ops.make_state()};
  const auto nowhere = [](DType dtype, std::initializer_list<int64_t> shape) {
    return Tensor::view(reinterpret_cast<void*>(4096), dtype, shape);
  };
  embedding(ctx, {.out = nowhere(DType::kF32, {1, 64}),
                  .token_ids = nowhere(DType::kI32, {1}),
                  .table = {reinterpret_cast<void*>(4096), DType::kF32, 64, 64}});
}

[[noreturn]] void lose_the_gpu_between_steps(EngineConfig config) {
  config.max_num_seqs = 1;
  LLM llm(config);
  const Prompt prompt(std::vector<TokenId>{1, 2, 3});
  llm.add_request(prompt, {.max_tokens = 5, .ignore_eos = true});
  llm.add_request(prompt, {.max_tokens = 5, .ignore_eos = true});  // waits
  llm.step();
  lose_the_gpu();
  size_t num_failed = 0;
  while (llm.has_unfinished()) {  // a step that ran before is still good
    try {
      for (const RequestOutput& output : llm.step())
        num_failed += output.finish_reason == FinishReason::kError;
    } catch (const Error& error) {
      std::cerr << error.what() << '\n';
    }
  }
  std::cerr << num_failed << " requests failed\n";
  try {
    llm.add_request(prompt, {});
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
  }
  std::_Exit(llm.failure().empty() ? 1 : 7);
}

TEST_F(LlmOnGpu, AGpuThatFailsEndsAllRequestsAndIsSaid) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a forked process has no GPU
  EXPECT_EXIT(lose_the_gpu_between_steps(config(0.3)), testing::ExitedWithCode(7),
              "CUDA says cudaErrorIllegalAddress.*\n2 requests failed\n.*device failed, want a restart");
}

// Fed with the reference's own tokens, bf16 finds the same one likeliest wherever float32's lead is beyond what bf16 may be off.
TEST_F(LlmOnGpu, Bf16FindsTheSameTokensLikeliest) {
  const ModelConfig model = read_model_config(test::demo_model());
  ModelRunner exact(test::demo_model(), model, test::small_runner(cpu_ops(), 2)),
      bf16(test::demo_model(), model, test::small_runner(cuda_ops(DType::kBF16)));
  int num_sure = 0;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    std::vector<TokenId> ids{806, 675, 258, 505};  // "Once upon a time"
    for (uint32_t i = 0; i < 60; ++i) ids.push_back(TokenId((seed * 977 + i * i * 31) % 6000));
    const auto want = test::run_prompt(exact, ids, int(ids.size())).logits,
               got = test::run_prompt(bf16, ids, int(ids.size())).logits;
    const float bound = 3e-2f * test::largest(want);
    EXPECT_LE(test::largest_difference(got, want), bound);
    const size_t vocab = want.size() / ids.size();
    for (size_t t = 0; t < ids.size(); ++t) {
      std::vector<float> row(want.begin() + std::ptrdiff_t(t * vocab),
                             want.begin() + std::ptrdiff_t((t + 1) * vocab));
      const auto best = std::max_element(row.begin(), row.end()) - row.begin();
      const float top = row[size_t(best)];
      std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
      if (top - row[1] <= 2 * bound) continue;
      ++num_sure;
      const auto first = got.begin() + std::ptrdiff_t(t * vocab);
      EXPECT_EQ(std::max_element(first, first + std::ptrdiff_t(vocab)) - first, best)
          << seed << ", token " << t;
    }
  }
  EXPECT_GT(num_sure, 20);
}

}  // namespace
}  // namespace nanovllm
