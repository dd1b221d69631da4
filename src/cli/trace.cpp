// inspect --trace
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/safetensors_writer.h"
#include "cli/inspect.h"
#include "cli/prompts.h"
#include "llm/forward_trace.h"
#include "llm/load_tokenizer.h"

namespace nanovllm::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kNumFirst = 4;  // values that are shown

struct Summary {
  float min = INFINITY, max = -INFINITY;
  double norm = 0;  // Euclidean
  int64_t num_nan = 0;
};

Summary summarize(const std::vector<float>& values) {
  Summary s;
  for (const float v : values) {
    s.num_nan += std::isnan(v);
    s.min = std::min(s.min, v);
    s.max = std::max(s.max, v);
    s.norm += double(v) * double(v);
  }
  s.norm = std::sqrt(s.norm);
  if (s.num_nan > 0) s.min = s.max = NAN;
  return s;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t n : shape) text += (text.empty() ? "[" : ", ") + std::to_string(n);
  return text + "]";
}

// A text, a chat's user message, or for a model without tokenizer.json token ids.
std::vector<TokenId> encode(const InspectOptions& options) {
  const std::filesystem::path& model = options.engine.model;
  const std::optional<Tokenizer> tokenizer = load_tokenizer(model);
  if (!options.apply_chat_template) return encode_text(tokenizer ? &*tokenizer : nullptr, *options.trace);
  if (!tokenizer)
    fail(ErrorKind::kConfig, model.string(), ": has no tokenizer.json, want --trace without --chat");
  const std::optional<ChatTemplate> chat_template = ChatTemplate::load(model);
  if (!chat_template)
    fail(ErrorKind::kConfig, model.string(), ": has no chat template, want --trace without --chat");
  const std::vector<ChatMessage> messages{{.role = "user", .content = *options.trace}};
  return tokenizer->encode_prompt(render_chat(*chat_template, to_value(messages), options.chat),
                                  TemplateTokens::kOmit);
}

void print(const std::vector<TokenId>& prompt, const std::vector<TraceStep>& steps, int num_ranks) {
  if (num_ranks > 1) std::printf("rank 0 of %d: heads and MLP are its part\n", num_ranks);
  std::printf("%zu prompt token%s:", prompt.size(), prompt.size() == 1 ? "" : "s");
  for (const TokenId id : prompt) std::printf(" %d", id);
  std::printf("\n%-46s %-16s %10s %10s %10s %8s  first values\n", "step", "shape", "min", "max", "norm",
              "us");
  for (const TraceStep& step : steps) {
    const Summary s = summarize(step.values);
    std::printf("%-46s %-16s %10.4g %10.4g %10.4g %8.1f ", step.name.c_str(), shape_text(step.shape).c_str(),
                double(s.min), double(s.max), s.norm, 1e6 * step.seconds);
    for (size_t i = 0; i < std::min(kNumFirst, step.values.size()); ++i)
      std::printf(" %.4g", double(step.values[i]));
    std::printf("\n");
  }
}

ordered_json to_json(const std::vector<TokenId>& prompt, const std::vector<TraceStep>& steps, int num_ranks) {
  ordered_json json{
      {"prompt_ids", prompt}, {"rank", 0}, {"num_ranks", num_ranks}, {"steps", ordered_json::array()}};
  for (const TraceStep& step : steps) {
    const Summary s = summarize(step.values);
    const auto end = step.values.begin() + std::ptrdiff_t(std::min(kNumFirst, step.values.size()));
    json["steps"].push_back({{"name", step.name},
                             {"shape", step.shape},
                             {"min", s.min},
                             {"max", s.max},
                             {"norm", s.norm},
                             {"num_nan", s.num_nan},
                             {"seconds", step.seconds},
                             {"first", std::vector<float>(step.values.begin(), end)}});
  }
  return json;
}

}  // namespace

int run_trace(const InspectOptions& options) {
  const std::vector<TokenId> prompt = encode(options);
  std::vector<TraceStep> steps = trace_forward(options.engine, prompt);
  if (options.layer) {
    const int num_layers = 1 + std::max_element(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
                                 return a.layer < b.layer;
                               })->layer;
    if (*options.layer < 0 || *options.layer >= num_layers)
      fail(ErrorKind::kConfig, "--layer: is ", *options.layer, ", want 0 to ", num_layers - 1);
    std::erase_if(steps, [&](const TraceStep& step) { return step.layer != *options.layer; });
  }
  if (!options.save.empty()) {
    std::vector<WrittenTensor> tensors;
    std::vector<float> ids(prompt.begin(), prompt.end());
    tensors.push_back({"prompt_ids", {int64_t(ids.size())}, std::move(ids)});
    for (const TraceStep& step : steps) tensors.push_back({step.name, step.shape, step.values});
    write_safetensors(options.save, tensors);
  }
  if (options.json)
    std::cout << to_json(prompt, steps, options.engine.tensor_parallel_size).dump(2) << "\n";
  else
    print(prompt, steps, options.engine.tensor_parallel_size);
  return 0;
}

}  // namespace nanovllm::cli
