#include "models/generation_config.h"

#include "base/file.h"
#include "models/json_fields.h"

namespace nanovllm {
namespace {

// What Hugging Face's generate() would do with them, and the value that does nothing.
struct NeutralField {
  const char* name;
  double neutral;
};
constexpr NeutralField kNotImplemented[] = {
    {"typical_p", 1},      {"epsilon_cutoff", 0}, {"eta_cutoff", 0},           {"num_beams", 1},
    {"length_penalty", 1}, {"penalty_alpha", 0},  {"no_repeat_ngram_size", 0}, {"min_new_tokens", 0},
    {"guidance_scale", 1}, {"min_length", 0}};

std::optional<float> number_in(const JsonFields& fields, const char* key, bool (*good)(double),
                               const char* want) {
  const std::optional<double> value = fields.number(key);
  if (!value) return std::nullopt;
  if (!good(*value)) fail(ErrorKind::kConfig, fields.where(), ": ", key, " is ", *value, ", want ", want);
  return float(*value);
}

}  // namespace

GenerationConfig read_generation_config(const std::filesystem::path& model_folder) {
  const std::filesystem::path path = model_folder / "generation_config.json";
  std::error_code ignored;
  if (std::filesystem::symlink_status(path, ignored).type() == std::filesystem::file_type::not_found)
    return {};
  return parse_generation_config(read_file(path, size_t{1} << 20), path.string());
}

GenerationConfig parse_generation_config(const std::string& json, const std::string& name) {
  const JsonFields fields(json, name);
  GenerationConfig config;
  config.eos_token_ids = fields.token_ids("eos_token_id");
  config.do_sample = fields.boolean("do_sample");
  config.temperature = number_in(
      fields, "temperature", [](double t) { return t >= 0 && t <= 2; }, "0 to 2");
  config.top_p = number_in(
      fields, "top_p", [](double p) { return p > 0 && p <= 1; }, "more than 0 and at most 1");
  config.min_p = number_in(
      fields, "min_p", [](double p) { return p >= 0 && p <= 1; }, "0 to 1");
  config.repetition_penalty = number_in(
      fields, "repetition_penalty", [](double p) { return p >= 0.001 && p <= 1000; }, "0.001 to 1000");
  if (const auto value = fields.integer("top_k", -1, INT32_MAX)) config.top_k = int(*value);
  for (const NeutralField& field : kNotImplemented) {
    const std::optional<double> value = fields.number(field.name);
    if (value && *value != field.neutral)
      warn(name + ": " + field.name + " is not implemented and has no effect");
  }
  return config;
}

}  // namespace nanovllm
