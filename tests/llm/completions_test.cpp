// Several completions of a prompt (SamplingParams::n) and priorities, through the front door.
#include <gtest/gtest.h>

#include <set>

#include "engine/scheduler.h"
#include "llm/llm.h"
#include "support.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {
namespace {

using Params = std::vector<SamplingParams>;

EngineConfig demo_config() {
  return {.model = test::demo_model(), .device = "cpu", .num_threads = 1, .max_num_seqs = 16};
}

std::vector<Prompt> three_prompts() {
  return {Prompt("Once upon a time"), Prompt("The little fox"), Prompt("The king said to his daughter,")};
}

std::vector<std::vector<TokenId>> tokens_of(const std::vector<Completion>& completions) {
  std::vector<std::vector<TokenId>> result;
  for (const Completion& c : completions) result.push_back(c.token_ids);
  return result;
}

TEST(Completions, AreOrderedByPromptAndDiffer) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts = three_prompts();
  const Params params{{.n = 4, .temperature = 1, .seed = 7, .max_tokens = 20, .ignore_eos = true}};
  const auto got = tokens_of(llm.generate(prompts, params));
  ASSERT_EQ(got.size(), 12u);
  EXPECT_EQ(std::set(got.begin(), got.end()).size(), 12u);
  EXPECT_EQ(tokens_of(llm.generate(prompts, params)), got) << "a repeat of the whole";
  for (size_t p = 0; p < 3; ++p) {  // completion i is the same whatever n, by itself and in company
    for (const int n : {1, 3}) {
      Params fewer = params;
      fewer[0].n = n;
      const auto some = tokens_of(llm.generate(std::span(prompts).subspan(p, 1), fewer));
      EXPECT_TRUE(std::equal(some.begin(), some.end(), got.begin() + long(4 * p))) << p << " " << n;
    }
  }
}

TEST(Completions, TheSameWhenTheyHaveToTakeTurns) {
  const std::vector<Prompt> prompts = three_prompts();
  const Params params{{.n = 5, .temperature = 1, .seed = 3, .max_tokens = 24, .ignore_eos = true}};
  LLM all(demo_config());
  const auto want = tokens_of(all.generate(prompts, params));
  EngineConfig few = demo_config();
  few.max_num_seqs = 2;  // fewer than completions of one prompt
  EngineConfig tight = demo_config();
  tight.num_kvcache_blocks = 5;
  tight.prefix_caching = false;
  for (const EngineConfig& config : {few, tight}) {
    LLM llm(config);
    EXPECT_EQ(tokens_of(llm.generate(prompts, params)), want);
    EXPECT_EQ(llm.scheduler().blocks().num_free_blocks(), llm.scheduler().blocks().num_blocks());
  }
}

TEST(Completions, GreedyOnesAreEqual) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts{Prompt("Once upon a time")};
  const auto got = tokens_of(llm.generate(prompts, Params{{.n = 3, .temperature = 0, .max_tokens = 10}}));
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0], got[1]);
  EXPECT_EQ(got[0], got[2]);
}

// Streamed: each piece says whose it is; the pieces of each join to its text; one that stops leaves the others.
TEST(Completions, StreamsAreApart) {
  LLM llm(demo_config());
  const SamplingParams params{.n = 3, .temperature = 1, .seed = 11, .max_tokens = 40, .stop_token_ids = {13}};
  const RequestId id = llm.add_request(Prompt("Once upon a time"), params);
  std::vector<Completion> got(3);
  std::set<size_t> lengths;
  while (llm.has_unfinished())
    for (const RequestOutput& output : llm.step()) {
      EXPECT_EQ(output.id, id);
      Completion& c = got.at(size_t(output.index));
      EXPECT_EQ(c.finish_reason, FinishReason::kNone) << "something after the end";
      c.text += output.text;
      c.token_ids.insert(c.token_ids.end(), output.token_ids.begin(), output.token_ids.end());
      c.finish_reason = output.finish_reason;
      EXPECT_EQ(int(c.token_ids.size()), output.num_output_tokens);
    }
  for (const Completion& c : got) {
    EXPECT_EQ(c.finish_reason, FinishReason::kStop);
    EXPECT_EQ(c.text, llm.tokenizer()->decode(std::span(c.token_ids).first(c.token_ids.size() - 1),
                                              SpecialText::kSkip));
    lengths.insert(c.token_ids.size());
  }
  EXPECT_GT(lengths.size(), 1u) << "all stopped at once: this shows nothing";
}

// As many draws from the last token as a step has tokens, and not.
TEST(Completions, AreTheSameForPromptsOfAnyLength) {
  for (const int length : {1, 2, 3, 5}) {
    const std::vector<TokenId> tokens{20, 300, 7, 41, 5};
    const Prompt prompt(std::vector<TokenId>(tokens.begin(), tokens.begin() + length));
    const SamplingParams params{
        .n = length, .temperature = 1, .seed = 5, .max_tokens = 6, .ignore_eos = true};
    LLM alone(demo_config()), together(demo_config());
    const auto want = tokens_of(together.generate(std::vector{prompt, Prompt("The little fox")},
                                                  Params{params, {.max_tokens = 6, .ignore_eos = true}}));
    const auto got = tokens_of(alone.generate(std::vector{prompt}, Params{params}));
    ASSERT_EQ(got.size(), size_t(length));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], want[i]) << length << ", completion " << i;
  }
}

TEST(Completions, AbortTellsTheEndOfEach) {
  LLM llm(demo_config());
  const RequestId id = llm.add_request(Prompt("Once upon a time"), {.n = 3, .ignore_eos = true});
  llm.step();
  EXPECT_TRUE(llm.abort(id));
  std::set<int> ended;
  for (const RequestOutput& output : llm.step()) {
    EXPECT_EQ(output.finish_reason, FinishReason::kAbort);
    ended.insert(output.index);
  }
  EXPECT_EQ(ended, (std::set<int>{0, 1, 2}));
  EXPECT_FALSE(llm.has_unfinished());
}

TEST(Completions, ARefusedPromptKeepsThePlacesOfTheOthers) {
  LLM llm(demo_config());
  const std::vector<Prompt> prompts{Prompt("Once upon a time"), Prompt(""), Prompt("The little fox")};
  const SamplingParams two{.n = 2, .temperature = 0, .max_tokens = 4, .ignore_eos = true};
  std::vector<size_t> ended;
  const std::vector<Completion> got = llm.generate(
      prompts, Params{two}, {.on_completion = [&](size_t i, const Completion&) { ended.push_back(i); }});
  ASSERT_EQ(got.size(), 6u);
  EXPECT_EQ(ended.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(got[i].error.empty(), i != 2 && i != 3) << i;
  for (const int n : {0, -1, 129, 1000000000}) {
    Params bad(3, two);
    bad[1].n = n;
    const std::vector<Completion> others = llm.generate(prompts, bad);
    ASSERT_EQ(others.size(), 5u);
    EXPECT_EQ(others[2].error, "n: is " + std::to_string(n) + ", want 1 to 128");
    EXPECT_EQ(others[3].token_ids, got[4].token_ids);
  }
}

TEST(Completions, APromptIsComputedOnceAndCountedOnce) {
  EngineConfig config = demo_config();
  config.prefix_caching = false;
  LLM llm(config);
  llm.add_request(Prompt(std::vector<TokenId>(100, 5)), {.n = 8, .max_tokens = 5, .ignore_eos = true});
  llm.step();
  EXPECT_EQ(llm.last_step().num_prefill_tokens, 100);
  EXPECT_EQ(llm.last_step().num_output_tokens, 8);
  const int used = llm.scheduler().blocks().num_blocks() - llm.scheduler().blocks().num_free_blocks();
  EXPECT_EQ(used, 7);
  while (llm.has_unfinished())
    for (const RequestOutput& output : llm.step()) EXPECT_EQ(output.num_prompt_tokens, 100);
  EXPECT_EQ(llm.scheduler().metrics().prompt_tokens, 100);
  EXPECT_EQ(llm.scheduler().metrics().generation_tokens, 40);
}

TEST(Priority, TheMoreUrgentPromptIsAnsweredFirst) {
  EngineConfig config = demo_config();
  config.max_num_seqs = 1;
  LLM llm(config);
  Prompt later("Once upon a time"), urgent("The little fox");
  later.priority = 1;
  urgent.priority = -1;
  const SamplingParams params{.temperature = 0, .max_tokens = 3, .ignore_eos = true};
  const RequestId first = llm.add_request(later, params), second = llm.add_request(urgent, params);
  std::vector<RequestId> ended;
  while (llm.has_unfinished())
    for (const RequestOutput& output : llm.step())
      if (output.finished()) ended.push_back(output.id);
  EXPECT_EQ(ended, (std::vector<RequestId>{second, first}));
}

}  // namespace
}  // namespace nanovllm
