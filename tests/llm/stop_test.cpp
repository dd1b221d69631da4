// What ends an answer and how its text is made (SamplingParams: stop, include_stop_str_in_output, stop_token_ids,
// skip_special_tokens, detokenize), through the front door.
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "llm/llm.h"
#include "support.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {
namespace {

constexpr const char* kPrompt = "Once upon a time";
constexpr int kLength = 40;

class StopTest : public testing::TestWithParam<const char*> {  // async_scheduling
 protected:
  StopTest()
      : llm_(
            {.model = test::demo_model(), .device = "cpu", .num_threads = 1, .async_scheduling = GetParam()}),
        whole_(answer({})) {}

  Completion answer(SamplingParams params) {
    params.temperature = 0;
    params.ignore_eos = true;
    if (params.max_tokens == SamplingParams{}.max_tokens) params.max_tokens = kLength;
    return llm_.generate(std::vector<Prompt>{Prompt(kPrompt)}, std::vector<SamplingParams>{params})[0];
  }
  std::string text_of(const std::vector<TokenId>& ids) const {
    return llm_.tokenizer()->decode(ids, SpecialText::kSkip);
  }
  // The fewest tokens of the whole answer whose text has `stop`.
  size_t tokens_until(const std::string& stop) const {
    for (size_t n = 1; n <= whole_.token_ids.size(); ++n)
      if (text_of({whole_.token_ids.begin(), whole_.token_ids.begin() + std::ptrdiff_t(n)}).find(stop) !=
          std::string::npos)
        return n;
    return 0;
  }

  LLM llm_;
  Completion whole_;
};
INSTANTIATE_TEST_SUITE_P(Scheduling, StopTest, testing::Values("off", "on"));

// Every piece of up to 12 letters of the answer's first 60, wherever tokens begin and end.
TEST_P(StopTest, TheAnswerEndsBeforeTheString) {
  ASSERT_GT(whole_.text.size(), 100u);
  int num_inside_tokens = 0;
  for (size_t begin = 0; begin < 60; begin += 3)
    for (const size_t length : {1, 2, 5, 12}) {
      const std::string stop = whole_.text.substr(begin, length);
      const Completion got = answer({.stop = {stop}});
      EXPECT_EQ(got.text, whole_.text.substr(0, whole_.text.find(stop))) << stop;
      EXPECT_EQ(got.finish_reason, FinishReason::kStop);
      EXPECT_EQ(got.stop_reason, StopReason(stop));
      const size_t num_tokens = tokens_until(stop);
      EXPECT_TRUE(got.token_ids ==
                  std::vector<TokenId>(whole_.token_ids.begin(),
                                       whole_.token_ids.begin() + std::ptrdiff_t(num_tokens)))
          << stop;
      num_inside_tokens += text_of(got.token_ids) != got.text + stop;
      EXPECT_EQ(answer({.stop = {stop}, .include_stop_str_in_output = true}).text, got.text + stop);
    }
  EXPECT_GT(num_inside_tokens, 10);
  EXPECT_EQ(llm_.scheduler().blocks().num_free_blocks(), llm_.scheduler().blocks().num_blocks());
}

TEST_P(StopTest, NothingFromTheStringOnIsEverSent) {
  const std::string stop = whole_.text.substr(30, 12);
  llm_.add_request(Prompt(kPrompt),
                   {.temperature = 0, .max_tokens = kLength, .ignore_eos = true, .stop = {stop}});
  std::string text;
  int num_finished = 0;
  while (llm_.has_unfinished())
    for (const RequestOutput& output : llm_.step()) {
      EXPECT_EQ(num_finished, 0) << "an output behind the last";
      text += output.text;
      EXPECT_TRUE(whole_.text.substr(0, whole_.text.find(stop)).starts_with(text)) << text;
      num_finished += output.finished();
    }
  EXPECT_EQ(num_finished, 1);
  EXPECT_TRUE(llm_.step().empty());
  EXPECT_EQ(llm_.last_step().num_keys, 0) << "a step was left behind";
  EXPECT_EQ(text, whole_.text.substr(0, whole_.text.find(stop)));
}

TEST_P(StopTest, AtTheVeryTokenOfMaxTokens) {
  const std::string stop = whole_.text.substr(40, 6);
  const int needed = int(tokens_until(stop));
  const auto num_stopped = [&] { return llm_.scheduler().metrics().finished[size_t(FinishReason::kStop)]; };
  const auto stopped_before = num_stopped();
  const Completion at = answer({.max_tokens = needed, .stop = {stop}});
  EXPECT_EQ(num_stopped(), stopped_before + 1);
  const Completion before = answer({.max_tokens = needed - 1, .stop = {stop}});
  EXPECT_EQ(num_stopped(), stopped_before + 1);
  EXPECT_EQ(at.finish_reason, FinishReason::kStop);
  EXPECT_EQ(at.text, whole_.text.substr(0, whole_.text.find(stop)));
  EXPECT_EQ(before.finish_reason, FinishReason::kLength);
  EXPECT_EQ(before.stop_reason, StopReason());
  EXPECT_EQ(before.text, text_of(before.token_ids)) << "what was held back comes at the end";
}

TEST_P(StopTest, ThePromptIsNotLookedAt) {
  ASSERT_TRUE(whole_.text.starts_with(", a "));
  EXPECT_EQ(answer({.stop = {"time,", "Once", "me, a"}}).text, whole_.text);
}

TEST_P(StopTest, OfSeveralTheFirstToEnd) {
  const std::string word = whole_.text.substr(30, 10);
  const Completion got = answer({.stop = {word + "?", word, word.substr(0, 4), "no such text"}});
  EXPECT_EQ(got.stop_reason, StopReason(word.substr(0, 4)));
  EXPECT_EQ(got.text, whole_.text.substr(0, whole_.text.find(word.substr(0, 4))));
}

TEST_P(StopTest, TokensThatStop) {
  const TokenId id = whole_.token_ids[9];
  const auto first = std::find(whole_.token_ids.begin(), whole_.token_ids.end(), id);
  const std::vector<TokenId> before(whole_.token_ids.begin(), first),
      with(whole_.token_ids.begin(), first + 1);
  const Completion got = answer({.stop_token_ids = {id}});
  EXPECT_EQ(got.stop_reason, StopReason(id));
  EXPECT_EQ(got.token_ids, with);
  EXPECT_EQ(got.text, text_of(before));
  EXPECT_EQ(answer({.stop_token_ids = {id}, .include_stop_str_in_output = true}).text, text_of(with));
}

TEST_P(StopTest, EosHasNoReason) {
  const std::vector<Prompt> prompts{Prompt(kPrompt)};
  const auto of = [&](SamplingParams params) {
    params.temperature = 0;
    params.max_tokens = 400;
    return llm_.generate(prompts, std::vector<SamplingParams>{params})[0];
  };
  const Completion got = of({});
  ASSERT_EQ(got.finish_reason, FinishReason::kStop);
  EXPECT_EQ(got.stop_reason, StopReason());
  const Completion shown = of({.include_stop_str_in_output = true, .skip_special_tokens = false});
  EXPECT_EQ(shown.token_ids, got.token_ids);
  EXPECT_EQ(shown.text, got.text + llm_.tokenizer()->decode({{got.token_ids.back()}}, SpecialText::kKeep));
  EXPECT_GT(shown.text.size(), got.text.size());
  EXPECT_EQ(of({.skip_special_tokens = false}).text, got.text) << "the token that stops is not part of it";
}

TEST_P(StopTest, WithoutTextTheTokensAreTheSame) {
  const Completion got = answer({.detokenize = false});
  EXPECT_EQ(got.token_ids, whole_.token_ids);
  EXPECT_EQ(got.text, "");
}

// One ends by a string; other completions and requests go on as without it.
TEST_P(StopTest, OthersGoOn) {
  const std::vector<Prompt> prompts{Prompt(kPrompt), Prompt("The little fox")};
  const SamplingParams free{.n = 3, .temperature = 1, .seed = 5, .max_tokens = 30, .ignore_eos = true};
  const auto want = llm_.generate(prompts, std::vector<SamplingParams>{free});
  SamplingParams params = free;
  params.stop = {want[1].text.substr(20, 9)};
  const auto got = llm_.generate(prompts, std::vector<SamplingParams>{params});
  int num_stopped = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const size_t at = want[i].text.find(params.stop[0]);
    EXPECT_EQ(got[i].text, want[i].text.substr(0, at)) << i;
    num_stopped += at != std::string::npos;
    EXPECT_EQ(got[i].finish_reason, at == std::string::npos ? FinishReason::kLength : FinishReason::kStop);
    EXPECT_TRUE(std::equal(got[i].token_ids.begin(), got[i].token_ids.end(), want[i].token_ids.begin()));
  }
  EXPECT_GE(num_stopped, 1);
  EXPECT_LT(num_stopped, 6);
  EXPECT_EQ(llm_.scheduler().blocks().num_free_blocks(), llm_.scheduler().blocks().num_blocks());
}

TEST(Stop, NeedsATokenizer) {
  LLM llm({.model = test::golden("qwen3-tied-bf16"), .device = "cpu", .num_threads = 1});
  test::expect_error(ErrorKind::kRequest, "stop: has strings, and ", [&] {
    llm.add_request(Prompt(std::vector<TokenId>{1, 2}), {.stop = {"a"}});
  });
  EXPECT_FALSE(llm.has_unfinished());
}

}  // namespace
}  // namespace nanovllm
