#include "models/generation_config.h"

#include "base/file.h"
#include "models/json_fields.h"

namespace nanovllm {

GenerationConfig read_generation_config(const std::filesystem::path& model_folder) {
  const std::filesystem::path path = model_folder / "generation_config.json";
  if (!std::filesystem::exists(path)) return {};
  return parse_generation_config(read_file(path, size_t{1} << 20), path.string());
}

GenerationConfig parse_generation_config(const std::string& json, const std::string& name) {
  const JsonFields fields(json, name);
  GenerationConfig config;
  config.eos_token_ids = fields.token_ids("eos_token_id");
  config.do_sample = fields.boolean("do_sample");
  if (const auto value = fields.number("temperature")) config.temperature = float(*value);
  if (const auto value = fields.number("top_p")) config.top_p = float(*value);
  if (const auto value = fields.integer("top_k", -1, INT32_MAX)) config.top_k = int(*value);
  return config;
}

}  // namespace nanovllm
