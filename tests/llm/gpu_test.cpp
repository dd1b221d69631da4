// The engine on a GPU: memory by arithmetic, and what it says when there is too little. Skipped where there is none.
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <thread>

#include "llm/llm.h"
#include "models/golden.h"
#include "models/tiny_model.h"
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
  LLM llm(config(share));
  const MemoryPlan& plan = llm.runner().memory_plan();
  EXPECT_GT(double(plan.num_blocks) * double(plan.kv_block_bytes), 1e9);
  EXPECT_LE(others + double(plan.total()), share * double(before.total));
  // Steps of every kind and size, so that all kernels are loaded and all graphs recorded.
  for (int i = 0; i < 256; ++i) {
    const Prompt prompt(std::vector<TokenId>(size_t(1 + i), TokenId(5 + i)));
    llm.add_request(prompt, {.temperature = i % 2 ? 1.0f : 0.0f, .max_tokens = 3 + i, .ignore_eos = true});
  }
  while (llm.has_unfinished()) llm.step();
  EXPECT_LE(llm.runner().memory_used(), plan.total());
  EXPECT_GE(llm.runner().memory_used(), plan.total() - plan.driver_bytes);
  std::cout << "memory: " << (plan.total() >> 20) << " MiB planned, " << (plan.driver_bytes >> 20)
            << " of them for the driver; " << (llm.runner().memory_used() >> 20) << " used\n";
}

TEST_F(LlmOnGpu, TooSmallAShareIsRefusedWithTheNumbers) {
  test::expect_error(ErrorKind::kOutOfMemory, "gpu_memory_utilization: is 0.0001, ",
                     [&] { LLM llm(config(0.0001)); });
}

TEST_F(LlmOnGpu, MoreBlocksThanMemoryIsAnError) {
  EngineConfig many = config();
  many.num_kvcache_blocks = 1 << 20;
  test::expect_error(ErrorKind::kOutOfMemory,
                     "num_kvcache_blocks: is 1048576, which with activations and what the driver takes is ",
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

// Runs sequences that end one after the other, so that there is every batch size up to `most` (the small ones thrice: run, recorded,
// replayed), step by step beside an engine without graphs. → steps whose logits or tokens are other bits
int num_steps_changed_by_graphs(EngineConfig graphs, int most) {
  graphs.max_num_seqs = most;
  graphs.max_model_len = 300;
  graphs.async_scheduling = "off";  // so that logits() are of the step just made
  EngineConfig eager = graphs;
  eager.gpu_memory_utilization = 0.3;
  eager.enforce_eager = true;
  LLM a(eager), b(graphs);
  for (int i = 0; i <= most; ++i) {  // one more than run at once
    const Prompt prompt(std::vector<TokenId>(size_t(1 + i * 7 % 40), TokenId(5 + i)));
    const SamplingParams params{.temperature = i % 2 ? 0.0f : 1.0f,
                                .seed = uint64_t(i),
                                .max_tokens = i == 0       ? 400  // to max_model_len
                                              : most <= 20 ? 3 * i
                                                           : 1 + i,
                                .ignore_eos = true};
    a.add_request(prompt, params);
    b.add_request(prompt, params);
  }
  const auto same_bits = [](const std::vector<float>& x, const std::vector<float>& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  };
  int num_changed = 0, num_infinite = 0, num_steps = 0;
  for (; a.has_unfinished() && b.has_unfinished(); ++num_steps) {
    const auto want = a.step(), got = b.step();
    bool same = want.size() == got.size() && same_bits(a.runner().logits(), b.runner().logits());
    for (size_t i = 0; same && i < want.size(); ++i) same = want[i].token_ids == got[i].token_ids;
    num_changed += !same;
    for (const float logit : a.runner().logits()) num_infinite += !std::isfinite(logit);
  }
  EXPECT_EQ(a.has_unfinished(), b.has_unfinished());
  EXPECT_EQ(num_infinite, 0) << "equal bits of what is no number would say nothing";
  EXPECT_GE(num_steps, most > 20 ? most : 260);
  return num_changed;
}

// Of Qwen3's form with heads of 128, in bf16: the embedding of token 0 is no number, and it is never the likeliest.
void write_model_without_token_0(const test::ScratchFolder& folder) {
  constexpr int64_t kVocab = 320, kHidden = 64;
  std::vector<test::NamedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    tensors.push_back(test::tiny_tensor({name, std::move(shape)}, DType::kBF16));
  };
  add("model.embed_tokens.weight", {kVocab, kHidden});
  add("lm_head.weight", {kVocab, kHidden});
  const uint16_t nan = float_to_bf16(std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < kHidden; ++i) std::memcpy(&tensors[0].bytes[2 * i], &nan, sizeof nan);
  std::fill_n(tensors[1].bytes.begin(), 2 * kHidden, char{0});
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"})
      add(layer + norm, {kHidden});
    for (const char* norm : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) add(layer + norm, {128});
    add(layer + "self_attn.q_proj.weight", {4 * 128, kHidden});
    add(layer + "self_attn.k_proj.weight", {2 * 128, kHidden});
    add(layer + "self_attn.v_proj.weight", {2 * 128, kHidden});
    add(layer + "self_attn.o_proj.weight", {kHidden, 4 * 128});
    add(layer + "mlp.gate_proj.weight", {96, kHidden});
    add(layer + "mlp.up_proj.weight", {96, kHidden});
    add(layer + "mlp.down_proj.weight", {kHidden, 96});
  }
  add("model.norm.weight", {kHidden});
  test::write_tiny_model(folder, tensors, 0, R"({
    "architectures": ["Qwen3ForCausalLM"], "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu",
    "tie_word_embeddings": false, "torch_dtype": "bfloat16"})");
}

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
      EngineConfig with_graphs = config(0.6);
      if (*c.model) with_graphs.model = test::golden(c.model);
      with_graphs.dtype = c.dtype;
      with_graphs.kvcache_block_size = c.block_size;
      EXPECT_EQ(num_steps_changed_by_graphs(with_graphs, most), 0)
          << c.model << ", " << c.dtype << ", " << most;
    }
}

// Rows that fill a recorded batch up have token 0, whose embedding here is no number: their hidden states, keys, values and logits
// are none either, and reach no other row.
TEST_F(LlmOnGpu, RowsThatFillUpAGraphReachNoOther) {
  const test::ScratchFolder folder;
  write_model_without_token_0(folder);
  for (const char* dtype : {"bfloat16", "float32"})
    for (const int most : {1, 3, 20, 100, 256}) {
      if (most > 20 && dtype == std::string("float32")) continue;
      EngineConfig with_graphs = config(0.6);
      with_graphs.model = folder.path();
      with_graphs.dtype = dtype;
      EXPECT_EQ(num_steps_changed_by_graphs(with_graphs, most), 0) << dtype << ", " << most;
    }
}

// Algorithms of products are chosen before the first request, for steps of every size and kind.
TEST_F(LlmOnGpu, NoStepIsTheFirstOfItsSize) {
  for (const char* dtype : {"bfloat16", "float32"}) {
    EngineConfig c = config(0.4);
    c.dtype = dtype;
    LLM llm(c);
    const int64_t prepared = llm.runner().num_prepared();
    EXPECT_EQ(prepared > 0, dtype == std::string("bfloat16"));  // float32 has kernels of our own
    std::vector<Prompt> prompts;
    for (const int length : {1, 2, 3, 63, 64, 65, 95, 100, 180, 200, 257, 300, 512, 700, 999})
      prompts.emplace_back(std::vector<TokenId>(size_t(length), TokenId(length)));
    const std::vector<SamplingParams> params{{.temperature = 0, .max_tokens = 4, .ignore_eos = true}};
    for (const Prompt& prompt : prompts) llm.generate(std::span(&prompt, 1), params);
    llm.generate(prompts, params);  // together, with others of their beginnings
    EXPECT_EQ(llm.runner().num_prepared(), prepared) << dtype;
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
