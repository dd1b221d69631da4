#include "models/load.h"

#include "base/error.h"

namespace nanovllm {
namespace {

// Tensors that some exporters write and no forward needs.
bool ignorable(std::string_view name, const ModelConfig& config) {
  if (config.tie_word_embeddings && name == "lm_head.weight")
    return true;                                  // the embedding serves, as in transformers
  return name.ends_with(".rotary_emb.inv_freq");  // computed from rope_theta
}

// "a, b, c and 7 more"
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) {
    if (i) text += ", ";
    text += names[i];
  }
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

}  // namespace

void load_parameters(Context& ctx, const Checkpoint& checkpoint, const std::string& where, Decoder& model) {
  std::vector<std::string> missing;
  model.visit_parameters([&](Parameter& parameter) {
    for (const ParameterPart& part : parameter.parts())
      if (!checkpoint.find(part.name)) missing.push_back(part.name);
  });
  if (!missing.empty())
    fail(ErrorKind::kCheckpoint, where, ": has no ", listed(missing), ", which ", model.config().architecture,
         " needs");

  std::set<std::string, std::less<>> used;
  model.visit_parameters([&](Parameter& parameter) { parameter.load(ctx, checkpoint, used); });

  std::vector<std::string> surplus;
  for (const std::string_view name : checkpoint.names())
    if (!used.contains(name) && !ignorable(name, model.config())) surplus.emplace_back(name);
  if (!surplus.empty())
    fail(ErrorKind::kCheckpoint, where, ": has ", listed(surplus), ", which ", model.config().architecture,
         " has no place for");
}

}  // namespace nanovllm
