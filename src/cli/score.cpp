#include "cli/score.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/unicode.h"
#include "cli/progress.h"
#include "cli/prompts.h"
#include "llm/scorer.h"
#include "models/json_fields.h"

namespace nanovllm::cli {
namespace {

using nlohmann::ordered_json;

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / double(values.size());
}

struct Divergence {
  std::vector<double> kl;  // of each token's distribution
  int64_t num_same = 0;    // where both find the same token likeliest
};

// Scores of all windows, with a second model beside if there is one.
struct FileScores {
  std::vector<double> scores;
  Divergence divergence;
};

TokenId likeliest(std::span<const float> logits) {
  return TokenId(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

FileScores score_windows_of(Scorer& scorer, Scorer* against, const std::vector<TokenId>& ids,
                            const std::vector<ScoreWindow>& windows) {
  FileScores result;
  ProgressLine progress;
  for (const ScoreWindow& window : windows) {
    const std::span part = std::span(ids).subspan(window.begin, window.end - window.begin);
    const int first = int(window.first - window.begin);
    std::vector<std::vector<float>> rows;  // kept for the comparison
    scorer.visit_logits(part, first, [&](int index, std::span<const float> logits) {
      result.scores.push_back(log_probability(logits, part[size_t(index)]));
      if (against) rows.emplace_back(logits.begin(), logits.end());
      progress.draw([&] {
        char text[120];
        std::snprintf(text, sizeof text, "%zu/%zu tokens, perplexity %.3f", result.scores.size(),
                      ids.size() - 1, std::exp(-mean(result.scores)));
        return std::string(text);
      });
    });
    if (!against) continue;
    against->visit_logits(part, first, [&](int index, std::span<const float> logits) {
      const std::vector<float>& row = rows[size_t(index - first)];
      result.divergence.kl.push_back(kl_divergence(row, logits));
      result.divergence.num_same += likeliest(row) == likeliest(logits);
    });
  }
  return result;
}

ordered_json to_json(const Divergence& divergence) {
  return {{"mean_kl", mean(divergence.kl)},
          {"max_kl", *std::max_element(divergence.kl.begin(), divergence.kl.end())},
          {"same_likeliest", double(divergence.num_same) / double(divergence.kl.size())}};
}

void print(const Divergence& divergence) {
  std::printf(
      "against the other: KL divergence %.3g nats a token, at most %.3g; the same token likeliest %.2f %%\n",
      mean(divergence.kl), *std::max_element(divergence.kl.begin(), divergence.kl.end()),
      100 * double(divergence.num_same) / double(divergence.kl.size()));
}

std::string shown(const Scorer& scorer, TokenId id) {
  if (!scorer.tokenizer()) return "";
  return nlohmann::json(replace_invalid_utf8(scorer.tokenizer()->token_bytes(id))).dump();
}

int score_text(Scorer& scorer, Scorer* against, const ScoreOptions& options) {
  const bool token_by_token = options.text.has_value();
  const std::string text = token_by_token ? *options.text : read_text(options.input);
  const std::vector<TokenId> ids = encode_text(scorer.tokenizer(), text);
  if (ids.size() < 2)
    fail(ErrorKind::kRequest,
         "text: has fewer than 2 tokens, and the first has none before it to be scored by");
  if (against && encode_text(against->tokenizer(), text) != ids)
    fail(ErrorKind::kConfig, options.against.model.string(),
         ": has another tokenizer: it makes other tokens of this text, so their probabilities cannot be "
         "compared");
  // A window's logits of the first model are kept until the second one has its own.
  constexpr int kMostAgainst = 1024, kDefaultAgainst = 256;
  const int most = against ? std::min({scorer.max_num_tokens(), against->max_num_tokens(), kMostAgainst})
                           : scorer.max_num_tokens();
  const int window = options.window != 0 ? options.window : against ? std::min(most, kDefaultAgainst) : most;
  if (most < 2)
    fail(ErrorKind::kConfig, "context: is ", most,
         " token, want at least 2 (--max-model-len, and what the KV cache holds)");
  if (window < 2 || window > most)
    fail(ErrorKind::kConfig, "--window: is ", window, ", want 2 to ", most,
         against && most == kMostAgainst ? ": with --against a window's logits are kept"
                                         : ": the context, and what the KV cache holds");
  const int stride = options.stride != 0 ? options.stride : std::max(1, window / 2);
  if (stride < 1 || stride >= window)
    fail(ErrorKind::kConfig, "--stride: is ", stride, ", want 1 to ", window - 1);
  const auto windows = score_windows(ids.size(), size_t(window), size_t(stride));
  const FileScores result = score_windows_of(scorer, against, ids, windows);
  const double average = mean(result.scores);
  if (options.json) {
    ordered_json json{{"model", options.model_name},
                      {"num_tokens", ids.size()},
                      {"num_scored", result.scores.size()},
                      {"window", window},
                      {"stride", stride},
                      {"logprob", average * double(result.scores.size())},
                      {"logprob_per_token", average},
                      {"perplexity", std::exp(-average)}};
    if (token_by_token) {
      json["ids"] = ids;
      json["logprobs"] = result.scores;
    }
    if (against) json["against"] = to_json(result.divergence);
    std::cout << json.dump(2) << "\n";
    return 0;
  }
  if (token_by_token) {
    std::printf("%9d %11s  %s\n", ids[0], "", shown(scorer, ids[0]).c_str());
    for (size_t i = 1; i < ids.size(); ++i)
      std::printf("%9d %11.6f  %s\n", ids[i], result.scores[i - 1], shown(scorer, ids[i]).c_str());
  }
  std::printf("%zu tokens, log-probability %.4f, %.6f a token, perplexity %.4f", ids.size(),
              average * double(result.scores.size()), average, std::exp(-average));
  if (windows.size() > 1 || options.window != 0)
    std::printf(" (windows of %d tokens, %d apart)", window, stride);
  std::printf("\n");
  if (against) print(result.divergence);
  return 0;
}

// One question.
struct Choice {
  std::string where;  // file and line, for errors
  std::string prompt;
  std::vector<std::string> choices;
  int answer = -1;  // -1: not known
};

Choice parse_choice(const std::string& line, const std::string& where) {
  const nlohmann::json json = parse_json_text(line, ErrorKind::kRequest, where);
  const auto wrong = [&](const char* what) {
    fail(ErrorKind::kRequest, where, ": ", what,
         R"(, want {"prompt": "...", "choices": ["...", "..."], "answer": 0})");
  };
  Choice choice{.where = where};
  if (!json.is_object() || !json.contains("prompt") || !json["prompt"].is_string()) wrong("has no prompt");
  choice.prompt = json["prompt"];
  if (!json.contains("choices") || !json["choices"].is_array() || json["choices"].size() < 2)
    wrong("has no list of two choices or more");
  for (const auto& each : json["choices"]) {
    if (!each.is_string()) wrong("has a choice that is no string");
    choice.choices.push_back(each);
  }
  for (const auto& [key, value] : json.items())
    if (key != "prompt" && key != "choices" && key != "answer") wrong(("has " + key).c_str());
  if (!json.contains("answer") || json["answer"].is_null()) return choice;
  if (!json["answer"].is_number_integer() || json["answer"] < 0 || json["answer"] >= choice.choices.size())
    wrong("has an answer that is no index of its choices");
  choice.answer = json["answer"];
  return choice;
}

struct ChoiceScore {
  double logprob = 0, per_token = 0;
};

// The prompt with each choice behind it, scored behind what all of them share with the prompt: the border may lie inside a
// token, and who joins the prompt's last one is not to be charged for it alone.
struct EncodedQuestion {
  std::vector<std::vector<TokenId>> choices;
  int first = 0;  // scored from here
};

EncodedQuestion encode_question(const Scorer& scorer, const Choice& question) {
  const std::vector<TokenId> before = encode_text(scorer.tokenizer(), question.prompt);
  const char* between = scorer.tokenizer() ? "" : " ";  // of token ids
  EncodedQuestion result{.first = int(before.size())};
  for (const std::string& choice : question.choices) {
    const auto ids = encode_text(scorer.tokenizer(), question.prompt + between + choice);
    const auto [a, b] = std::mismatch(before.begin(), before.end(), ids.begin(), ids.end());
    if (b == ids.begin())
      fail(ErrorKind::kRequest, question.where, ": the prompt has no token that the choice '", choice,
           "' leaves as it is, want a longer one: a first token cannot be scored");
    if (b == ids.end())
      fail(ErrorKind::kRequest, question.where, ": the choice '", choice, "' adds no token to its prompt");
    scorer.check(ids, question.where + ": the choice '" + choice + "'");
    result.first = std::min(result.first, int(b - ids.begin()));
    result.choices.push_back(ids);
  }
  return result;
}

ChoiceScore score_choice(Scorer& scorer, const std::vector<TokenId>& ids, int first) {
  const std::vector<double> scores = scorer.score(ids, first);
  return {mean(scores) * double(scores.size()), mean(scores)};
}

int score_choices(Scorer& scorer, const ScoreOptions& options) {
  std::vector<Choice> questions;
  visit_lines(options.choices, [&](const std::string& line, const std::string& where) {
    questions.push_back(parse_choice(line, where));
  });
  if (questions.empty())
    fail(ErrorKind::kRequest, options.choices.string(), ": is empty, want a question a line");

  std::vector<EncodedQuestion> encoded;  // all are judged before any is computed
  for (const Choice& question : questions) encoded.push_back(encode_question(scorer, question));

  int64_t num_known = 0, num_right = 0, num_right_per_token = 0;
  ordered_json rows = ordered_json::array();
  ProgressLine progress;
  for (const Choice& question : questions) {
    std::vector<ChoiceScore> scores;
    const EncodedQuestion& each = encoded[rows.size()];
    for (const auto& ids : each.choices) scores.push_back(score_choice(scorer, ids, each.first));
    const auto best = [&](double ChoiceScore::*score) {
      return int(std::max_element(scores.begin(), scores.end(),
                                  [&](const auto& a, const auto& b) { return a.*score < b.*score; }) -
                 scores.begin());
    };
    const int chosen = best(&ChoiceScore::logprob), chosen_per_token = best(&ChoiceScore::per_token);
    num_known += question.answer >= 0;
    num_right += chosen == question.answer;
    num_right_per_token += chosen_per_token == question.answer;
    ordered_json row{{"chosen", chosen}, {"chosen_per_token", chosen_per_token}};
    if (question.answer >= 0) row["answer"] = question.answer;
    for (const ChoiceScore& score : scores) row["logprobs"].push_back(score.logprob);
    rows.push_back(row);
    progress.draw(
        [&] { return std::to_string(rows.size()) + "/" + std::to_string(questions.size()) + " questions"; });
  }
  progress.clear();
  const double known = double(std::max<int64_t>(1, num_known));
  if (options.json) {
    ordered_json json{
        {"model", options.model_name}, {"num_questions", questions.size()}, {"num_with_answer", num_known}};
    if (num_known > 0) {
      json["accuracy"] = double(num_right) / known;
      json["accuracy_per_token"] = double(num_right_per_token) / known;
    }
    json["questions"] = rows;
    std::cout << json.dump(2) << "\n";
    return 0;
  }
  for (size_t i = 0; i < questions.size(); ++i) {
    const int chosen = rows[i]["chosen"];
    std::cout << i + 1 << ": " << chosen << " "
              << nlohmann::json(questions[i].choices[size_t(chosen)]).dump();
    if (questions[i].answer >= 0) std::cout << (chosen == questions[i].answer ? "  right" : "  wrong");
    std::cout << "\n";
  }
  std::printf("%zu question%s", questions.size(), questions.size() == 1 ? "" : "s");
  if (num_known > 0)
    std::printf(", accuracy %.2f %% by log-probability, %.2f %% by log-probability a token",
                100 * double(num_right) / known, 100 * double(num_right_per_token) / known);
  std::printf("\n");
  return 0;
}

}  // namespace

int run_score(const ScoreOptions& options) {
  if (!options.against.model.empty()) {
    const int64_t one = read_model_config(options.engine.model).vocab_size,
                  other = read_model_config(options.against.model).vocab_size;
    if (one != other)
      fail(ErrorKind::kConfig, options.against.model.string(), ": has a vocabulary of ", other,
           ", want the other's of ", one);
  }
  Scorer scorer(options.engine);
  if (!options.choices.empty()) return score_choices(scorer, options);
  std::optional<Scorer> against;
  if (!options.against.model.empty()) against.emplace(options.against);
  return score_text(scorer, against ? &*against : nullptr, options);
}

}  // namespace nanovllm::cli
