#include "models/load.h"

#include <set>

#include "base/error.h"
#include "checkpoint/printable.h"

namespace nanovllm {
namespace {

// Tensors that some exporters write and no forward needs.
bool ignorable(std::string_view name, const ModelConfig& config) {
  if (config.tie_word_embeddings && name == "lm_head.weight")
    return true;                                  // the embedding serves, as in transformers
  return name.ends_with(".rotary_emb.inv_freq");  // computed from rope_theta
}

// Quantized weights have companions that plain ones have not.
void refuse_quantized(const Checkpoint& checkpoint, const std::string& where) {
  static constexpr std::pair<std::string_view, std::string_view> kCompanions[] = {
      {".qweight", "GPTQ or AWQ"},      {".qzeros", "GPTQ or AWQ"},   {".weight_scale_inv", "FP8"},
      {".weight_scale", "FP8 or INT8"}, {".weight_packed", "packed"}, {".absmax", "bitsandbytes 4-bit"},
      {".SCB", "bitsandbytes 8-bit"}};
  for (const std::string_view name : checkpoint.names())
    for (const auto& [suffix, format] : kCompanions)
      if (name.ends_with(suffix))
        fail(ErrorKind::kUnsupported, where, ": has ", name, ", so its weights are quantized (", format,
             "), want plain f32, f16 or bf16 weights: take the folder that it was made from");
}

}  // namespace

void check_parameters(const Checkpoint& checkpoint, const std::string& where, Decoder& model) {
  refuse_quantized(checkpoint, where);
  std::vector<std::string> missing;
  model.visit_parameters([&](Parameter& parameter) {
    for (const ParameterPart& part : parameter.parts())
      if (!checkpoint.find(part.name)) missing.push_back(part.name);
  });
  if (!missing.empty())
    fail(ErrorKind::kCheckpoint, where, ": has no ", first_few(missing), ", which ",
         model.config().architecture, " needs");

  std::set<std::string, std::less<>> used;
  model.visit_parameters([&](Parameter& parameter) {
    parameter.check(checkpoint);
    for (const ParameterPart& part : parameter.parts()) used.insert(part.name);
  });
  std::vector<std::string> surplus;
  for (const std::string_view name : checkpoint.names())
    if (!used.contains(name) && !ignorable(name, model.config())) surplus.emplace_back(name);
  if (!surplus.empty())
    fail(ErrorKind::kCheckpoint, where, ": has ", first_few(surplus), ", which ", model.config().architecture,
         " has no place for");
}

void load_parameters(Context& ctx, const Checkpoint& checkpoint, Decoder& model) {
  model.visit_parameters([&](Parameter& parameter) { parameter.load(ctx, checkpoint); });
}

}  // namespace nanovllm
