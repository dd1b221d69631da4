// Steps that are begun before the tokens of the one before them are known change no answer: on the CPU and on a GPU.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/scheduler.h"
#include "llm/llm.h"
#include "ops/cuda/cuda_ops.h"
#include "support.h"

namespace nanovllm {
namespace {

class AsyncTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "cuda" && !cuda_unavailable().empty()) GTEST_SKIP() << cuda_unavailable();
  }

  EngineConfig config(const std::string& async) const {
    return {.model = test::demo_model(),
            .device = GetParam(),
            .num_threads = 2,
            .max_model_len = 200,
            .max_num_seqs = 6,
            .max_num_batched_tokens = 64,
            .gpu_memory_utilization = 0.4,
            .async_scheduling = async};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, AsyncTest, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return info.param; });

void change_logits(int i, SamplingParams& p) {
  if (i % 3 != 0) p.repetition_penalty = 1.5f, p.frequency_penalty = 0.5f;
  if (i % 3 != 1) p.logit_bias = {{TokenId(i), 3.0f}, {30, -2.0f}}, p.min_tokens = std::min(p.max_tokens, 5);
  if (i % 3 != 2) return;
  p.bad_words = {"a", "the"}, p.presence_penalty = -1;
  p.allowed_token_ids.emplace();
  for (TokenId id = 0; id < 6000; id += 7) p.allowed_token_ids->push_back(id);
}

// Many end early: each stops at a tenth of all ids, one in three of them at the EOS as well, one in four at a text.
void make_requests(int count, std::vector<Prompt>& prompts, std::vector<SamplingParams>& params) {
  std::mt19937 random(5);
  for (int i = 0; i < count; ++i) {
    std::vector<TokenId> ids(1 + random() % 90);
    for (TokenId& id : ids) id = TokenId(random() % 6000);
    prompts.emplace_back(ids);
    SamplingParams p{.n = i % 7 == 0 ? 3 : 1,
                     .temperature = i % 3 ? 1.0f : 0.0f,
                     .top_k = i % 5 ? 0 : 20,
                     .seed = uint64_t(i),
                     .max_tokens = int(1 + random() % 25),
                     .ignore_eos = i % 3 != 0};
    for (TokenId id = TokenId(i % 30); id < 6000; id += 30) p.stop_token_ids.push_back(id);
    if (i % 4 == 1) p.stop = {" th", "ing", "a l"};
    if (i >= 27) change_logits(i, p);
    params.push_back(p);
  }
}

TEST_P(AsyncTest, AnswersAreThoseOfStepsOneByOne) {
  std::vector<Prompt> prompts;
  std::vector<SamplingParams> params;
  make_requests(30, prompts, params);
  std::vector<Completion> want;
  // With all the memory and with little; with sizes of a CUDA graph that are met, and with padded ones.
  for (const auto& [num_blocks, max_num_seqs] : {std::pair(-1, 6), {200 / 16 + 8, 6}, {-1, 20}, {-1, 1}}) {
    for (const char* async : {"off", "on", "auto"}) {
      if (GetParam() == "cpu" && async == std::string("auto")) continue;  // off
      EngineConfig c = config(async);
      c.max_num_seqs = max_num_seqs;
      c.kvcache_block_size = 16;
      c.num_kvcache_blocks = num_blocks;
      LLM llm(c);
      const std::vector<Completion> got = llm.generate(prompts, params);
      if (want.empty()) want = got;
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].token_ids, want[i].token_ids) << async << ", completion " << i;
        EXPECT_EQ(got[i].finish_reason, want[i].finish_reason) << async << ", completion " << i;
        EXPECT_EQ(got[i].text, want[i].text) << async << ", completion " << i;
        EXPECT_EQ(got[i].stop_reason, want[i].stop_reason) << async << ", completion " << i;
      }
      EXPECT_EQ(llm.scheduler().blocks().num_free_blocks(), llm.scheduler().blocks().num_blocks());
      const bool has_ahead =
          async == std::string("on") || (async == std::string("auto") && GetParam() == "cuda");
      EXPECT_EQ(llm.scheduler().num_steps_ahead() > 3, has_ahead) << async;
    }
  }
  int num_stopped = 0;
  int num_by_text = 0;
  for (const Completion& c : want) {
    num_stopped += c.finish_reason == FinishReason::kStop;
    num_by_text += std::holds_alternative<std::string>(c.stop_reason);
  }
  EXPECT_GT(num_by_text, 1);
  EXPECT_GT(num_stopped, 8);
  EXPECT_LT(num_stopped, int(want.size()) - 8);
}

// Requests come and go while steps run: whoever is not aborted gets its own answer.
TEST_P(AsyncTest, ArrivalsAndAbortsWhileAStepRuns) {
  std::vector<Prompt> prompts;
  std::vector<SamplingParams> params;
  make_requests(25, prompts, params);
  for (SamplingParams& p : params) p.n = 1;
  std::vector<Completion> want;
  {
    LLM llm(config("off"));
    want = llm.generate(prompts, params);
  }
  LLM llm(config("on"));
  std::mt19937 random(9);
  std::map<RequestId, size_t> index_of;
  std::map<RequestId, std::vector<TokenId>> got;
  int num_aborted = 0;
  size_t next = 0;
  while (next < prompts.size() || llm.has_unfinished()) {
    if (next < prompts.size() && random() % 2) {
      index_of[llm.add_request(prompts[next], params[next])] = next;
      ++next;
    }
    if (random() % 12 == 0 && !index_of.empty())
      llm.abort(std::next(index_of.begin(), std::ptrdiff_t(random() % index_of.size()))->first);
    for (const RequestOutput& output : llm.step()) {
      std::vector<TokenId>& ids = got[output.id];
      ids.insert(ids.end(), output.token_ids.begin(), output.token_ids.end());
      if (!output.finished()) continue;
      const Completion& completion = want[index_of.at(output.id)];
      if (output.finish_reason == FinishReason::kAbort) {
        ++num_aborted;
        ASSERT_LE(ids.size(), completion.token_ids.size());
        EXPECT_TRUE(std::equal(ids.begin(), ids.end(), completion.token_ids.begin()));
      } else {
        EXPECT_EQ(ids, completion.token_ids);
        EXPECT_EQ(output.finish_reason, completion.finish_reason);
      }
    }
  }
  EXPECT_GT(num_aborted, 1);
  EXPECT_EQ(llm.scheduler().blocks().num_free_blocks(), llm.scheduler().blocks().num_blocks());
}

// Every step has its bars, in order, and the next one's launch comes before the update of the one before it.
TEST(StepTrace, ShowsWhatRanWhen) {
  const test::ScratchFolder folder;
  const std::string path = (folder / "steps.json").string();
  {
    LLM llm({.model = test::demo_model(),
             .device = "cpu",
             .num_threads = 1,
             .async_scheduling = "on",
             .trace_steps = path});
    const std::vector<Prompt> prompts{Prompt(std::vector<TokenId>{5, 6, 7})};
    llm.generate(prompts,
                 std::vector<SamplingParams>{{.temperature = 0, .max_tokens = 6, .ignore_eos = true}});
    EXPECT_GT(llm.last_step().device_busy, 0);
  }
  const nlohmann::json events = nlohmann::json::parse(std::ifstream(path));
  std::map<std::string, std::vector<int>> steps;  // of each kind of bar, in the order of the file
  std::vector<std::string> order;
  for (const nlohmann::json& event : events) {
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["dur"].get<int64_t>(), 0);
    EXPECT_EQ(event["args"]["tokens"], event["args"]["step"] == 0 ? 3 : 1);
    const int step = event["args"]["step"];
    steps[event["name"]].push_back(step);
    order.push_back(event["name"].get<std::string>() + std::to_string(step));
  }
  const std::vector<int> all{0, 1, 2, 3, 4, 5};
  for (const char* name : {"schedule", "launch", "step", "update", "output"})
    EXPECT_EQ(steps[name], all) << name;
  const auto at = [&](const char* name) {
    return std::find(order.begin(), order.end(), name) - order.begin();
  };
  EXPECT_LT(at("launch2"), at("update1"));
  EXPECT_LT(at("update1"), at("launch3"));
}

TEST(StepTrace, AFileThatCannotBeWrittenIsAnError) {
  test::expect_error(ErrorKind::kDevice, "trace_steps: /no/such/folder/x.json cannot be written", [] {
    LLM llm({.model = test::demo_model(),
             .device = "cpu",
             .num_threads = 1,
             .trace_steps = "/no/such/folder/x.json"});
  });
}

TEST(AsyncScheduling, IsRefusedOverSeveralRanks) {
  test::expect_error(ErrorKind::kUnsupported,
                     "async_scheduling: is on, want auto or off with tensor_parallel_size 2", [] {
                       LLM llm({.model = test::demo_model(),
                                .device = "cpu",
                                .tensor_parallel_size = 2,
                                .async_scheduling = "on"});
                     });
}

}  // namespace
}  // namespace nanovllm
