#include "models/load.h"

#include <cstring>
#include <random>
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

void load_dummy_parameters(Context& ctx, uint64_t seed, Decoder& model) {
  constexpr size_t kTableSize = size_t{1} << 21;  // elements: of the widest matrix at least two rows
  constexpr float kUniform =
      0.02f * 1.7320508f;  // half the width of a uniform distribution with that deviation
  const DType dtype = model.config().dtype.value_or(DType::kBF16);
  std::mt19937_64 random(seed);
  std::vector<std::byte> table(kTableSize * dtype_bytes(dtype));
  for (size_t i = 0; i < kTableSize; ++i) {
    const float value = float(int32_t(random())) * 0x1p-31f * kUniform;
    const uint16_t half = dtype == DType::kF16 ? float_to_f16(value) : float_to_bf16(value);
    if (dtype == DType::kF32)
      std::memcpy(&table[4 * i], &value, 4);
    else
      std::memcpy(&table[2 * i], &half, 2);
  }
  model.visit_parameters([&](Parameter& parameter) { parameter.load_dummy(ctx, dtype, table, random); });
}

}  // namespace nanovllm
