// The trained demo model against what Hugging Face transformers computes with it in float32
// (models/demo/reference.json, tools/make_demo_reference.py): real text through tokenizer, template, model
// and detokenizer.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "llm/llm.h"
#include "models/golden.h"
#include "models/model_config.h"
#include "support.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {
namespace {

using nlohmann::json;

const json& reference() {
  static const json data = json::parse(std::ifstream(test::demo_model() / "reference.json"));
  return data;
}

LLM& demo() {
  static LLM llm({.model = test::demo_model(), .device = "cpu", .num_threads = 1, .max_num_seqs = 32});
  return llm;
}

SamplingParams greedy(int max_tokens) { return {.temperature = 0, .max_tokens = max_tokens}; }

// Equal up to the first step whose margin the reference itself calls a near tie: under 10 times the bound on
// a logit, 2e-5 of the largest, 30 or so.
void expect_same_tokens(const json& row, const Completion& completion) {
  constexpr float kNearTie = 10 * 2e-5f * 30;
  const auto want = row["ids"].get<std::vector<TokenId>>();
  for (size_t i = 0; i < want.size(); ++i) {
    if (row["margin"][i].get<float>() < kNearTie) return;
    ASSERT_LT(i, completion.token_ids.size());
    ASSERT_EQ(completion.token_ids[i], want[i]) << "step " << i;
  }
  EXPECT_EQ(completion.token_ids, want);
  EXPECT_EQ(completion.text, row["text"].get<std::string>());
}

TEST(DemoModel, GreedyAnswersAreTheReferences) {
  std::vector<Prompt> prompts;
  for (const json& row : reference()["greedy"]) prompts.emplace_back(row["prompt"].get<std::string>());
  const std::vector<SamplingParams> params{greedy(96)};
  const std::vector<Completion> completions = demo().generate(prompts, params);
  for (size_t i = 0; i < prompts.size(); ++i) expect_same_tokens(reference()["greedy"][i], completions[i]);
}

TEST(DemoModel, ChatAnswersAreTheReferences) {
  std::vector<Prompt> prompts;
  for (const json& row : reference()["chat"]) {
    std::vector<ChatMessage> messages;
    for (const json& m : row["messages"]) messages.push_back({m["role"], m["content"]});
    ChatOptions options;
    if (row["kwargs"].contains("enable_thinking")) options.enable_thinking = row["kwargs"]["enable_thinking"];
    const PromptText text = demo().chat_template().render(messages, options);
    EXPECT_EQ(text.str(), row["rendered"].get<std::string>());
    EXPECT_EQ(demo().tokenizer()->encode_prompt(text), row["prompt_ids"].get<std::vector<TokenId>>());
    prompts.emplace_back(text);
  }
  const std::vector<SamplingParams> params{greedy(160)};
  const std::vector<Completion> completions = demo().generate(prompts, params);
  for (size_t i = 0; i < prompts.size(); ++i) expect_same_tokens(reference()["chat"][i], completions[i]);
}

// Log-probabilities of every token after each position, [num_tokens][vocab_size].
std::vector<std::vector<double>> log_probabilities(const std::vector<TokenId>& ids) {
  static ModelRunner runner(test::demo_model(), read_model_config(test::demo_model()),
                            test::small_runner(cpu_ops(), 1));
  const std::vector<float> logits = test::run_prompt(runner, ids, int(ids.size())).logits;
  const size_t vocab = logits.size() / ids.size();
  std::vector<std::vector<double>> result;
  for (size_t t = 0; t < ids.size(); ++t) {
    std::vector<double> row(logits.begin() + std::ptrdiff_t(t * vocab),
                            logits.begin() + std::ptrdiff_t((t + 1) * vocab));
    const double max = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const double v : row) sum += std::exp(v - max);
    for (double& v : row) v -= max + std::log(sum);
    result.push_back(row);
  }
  return result;
}

// A log-probability is a difference of two numbers of the size of a logit (30 at most): twice 2e-5 of that,
// and the reference is rounded to 6 places.
constexpr double kLogProbabilityBound = 2 * 2e-5 * 30 + 5e-7;

TEST(DemoModel, ScoresAreTheReferences) {
  for (const json& row : reference()["scored"]) {
    const auto ids = row["ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(demo().tokenizer()->encode(row["text"].get<std::string>()), ids);
    const auto got = log_probabilities(ids);
    for (size_t i = 1; i < ids.size(); ++i)
      EXPECT_NEAR(got[i - 1][size_t(ids[i])], row["logprobs"][i].get<double>(), kLogProbabilityBound) << i;
  }
}

TEST(DemoModel, TheLikeliestTokensAreTheReferences) {
  for (const json& row : reference()["top"]) {
    const auto got = log_probabilities(row["prompt_ids"].get<std::vector<TokenId>>()).back();
    for (size_t i = 0; i < row["top_ids"].size(); ++i)
      EXPECT_NEAR(got[row["top_ids"][i].get<size_t>()], row["top_logprobs"][i].get<double>(),
                  kLogProbabilityBound)
          << i;
  }
}

}  // namespace
}  // namespace nanovllm
