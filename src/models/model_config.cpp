#include "models/model_config.h"

#include <cmath>

#include "base/file.h"
#include "models/families.h"
#include "models/json_fields.h"

namespace nanovllm {
namespace {

constexpr int64_t kMaxSize = int64_t{1}
                             << 24;  // no dimension of a model comes near; keeps products in 64 bits

// One rope description: rope_parameters (transformers 5) or rope_scaling (transformers 4).
void refuse_scaled_rope(const JsonFields& rope) {
  const std::optional<std::string> type = rope.find("rope_type") ? rope.text("rope_type") : rope.text("type");
  if (type && *type != "default")
    fail(ErrorKind::kUnsupported, rope.where(), ": rope_type is ", *type, ", want default");
  if (rope.number("partial_rotary_factor").value_or(1) != 1)
    fail(ErrorKind::kUnsupported, rope.where(), ": partial_rotary_factor other than 1 is not implemented");
}

double read_rope_theta(const JsonFields& fields, double family_default) {
  std::optional<double> theta = fields.number("rope_theta");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const std::optional<JsonFields> rope = fields.object(key);
    if (!rope) continue;
    refuse_scaled_rope(*rope);
    const std::optional<double> nested = rope->number("rope_theta");
    if (theta && nested && *theta != *nested)
      fail(ErrorKind::kConfig, fields.where(), ": rope_theta is ", *theta, " and ", *nested, " in ", key,
           ", want one value");
    if (nested) theta = nested;
  }
  if (!theta) {
    std::ostringstream message;
    message << fields.where() << ": has no rope_theta, taking the family's " << family_default;
    warn(message.str());
    theta = family_default;
  }
  if (!(*theta > 0) || !std::isfinite(*theta))
    fail(ErrorKind::kConfig, fields.where(), ": rope_theta is ", *theta, ", want a positive number");
  return *theta;
}

// Fields that change the result and are not implemented.
void refuse_unsupported(const JsonFields& fields) {
  if (const auto act = fields.text("hidden_act"); act && *act != "silu")
    fail(ErrorKind::kUnsupported, fields.where(), ": hidden_act is ", *act, ", want silu");
  if (fields.boolean("use_sliding_window").value_or(false))
    fail(ErrorKind::kUnsupported, fields.where(), ": use_sliding_window is true, want false");
  if (fields.find("quantization_config"))
    fail(ErrorKind::kUnsupported, fields.where(),
         ": has a quantization_config, want plain f32, f16 or bf16 weights");
  if (fields.boolean("mlp_bias").value_or(false))
    fail(ErrorKind::kUnsupported, fields.where(), ": mlp_bias is true, want false");
  if (fields.number("partial_rotary_factor").value_or(1) != 1)
    fail(ErrorKind::kUnsupported, fields.where(), ": partial_rotary_factor other than 1 is not implemented");
  if (const nlohmann::json* types = fields.find("layer_types"))
    for (const nlohmann::json& type : *types)
      if (type != "full_attention")
        fail(ErrorKind::kUnsupported, fields.where(), ": layer_types has ", type.dump(),
             ", want only full_attention");
}

std::string read_architecture(const JsonFields& fields) {
  const nlohmann::json* names = fields.find("architectures");
  if (!names || !names->is_array() || names->empty() || !(*names)[0].is_string())
    fail(ErrorKind::kConfig, fields.where(), ": architectures is ",
         names ? names->dump().substr(0, 80) : "missing",
         ", want a list with a name, such as [\"Qwen3ForCausalLM\"]");
  return (*names)[0].get<std::string>();
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& model_folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(model_folder, ignored))
    fail(ErrorKind::kConfig, model_folder.string(), ": no such folder, want a Hugging Face model folder");
  if (!std::filesystem::is_directory(model_folder, ignored))
    fail(ErrorKind::kConfig, model_folder.string(), ": is a file, want a Hugging Face model folder");
  const std::filesystem::path path = model_folder / "config.json";
  if (std::filesystem::symlink_status(path, ignored).type() == std::filesystem::file_type::not_found)
    fail(ErrorKind::kConfig, model_folder.string(), ": has no config.json, want a Hugging Face model folder");
  return parse_model_config(read_file(path, size_t{16} << 20), path.string());
}

ModelConfig parse_model_config(const std::string& json, const std::string& name) {
  const JsonFields fields(json, name);
  ModelConfig config;
  config.architecture = read_architecture(fields);
  const Family& family = find_family(config.architecture, name);
  refuse_unsupported(fields);

  config.vocab_size = fields.required_integer("vocab_size", 1, kMaxSize);
  config.hidden_size = fields.required_integer("hidden_size", 1, kMaxSize);
  config.intermediate_size = fields.required_integer("intermediate_size", 1, kMaxSize);
  config.num_layers = int(fields.required_integer("num_hidden_layers", 1, 1024));
  config.num_heads = int(fields.required_integer("num_attention_heads", 1, 4096));
  config.num_kv_heads = int(fields.integer("num_key_value_heads", 1, 4096).value_or(config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0)
    fail(ErrorKind::kConfig, name, ": num_attention_heads is ", config.num_heads,
         ", want a multiple of num_key_value_heads=", config.num_kv_heads);
  if (const auto head_dim = fields.integer("head_dim", 1, 256)) {
    config.head_dim = int(*head_dim);
  } else {
    if (config.hidden_size % config.num_heads != 0 || config.hidden_size / config.num_heads > 256)
      fail(ErrorKind::kConfig, name, ": has no head_dim, and hidden_size=", config.hidden_size, " over ",
           config.num_heads, " heads gives none");
    config.head_dim = int(config.hidden_size / config.num_heads);
  }
  if (config.head_dim % 2 != 0)
    fail(ErrorKind::kConfig, name, ": head_dim is ", config.head_dim, ", want an even number");
  config.max_position_embeddings = int(fields.required_integer("max_position_embeddings", 1, kMaxSize));
  config.rms_norm_eps = float(fields.number("rms_norm_eps").value_or(1e-6));
  if (!(config.rms_norm_eps > 0) || !std::isfinite(config.rms_norm_eps))
    fail(ErrorKind::kConfig, name, ": rms_norm_eps is ", config.rms_norm_eps, ", want a positive number");
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(false);
  config.eos_token_ids = fields.token_ids("eos_token_id");

  family.configure(config, {.attention_bias = fields.boolean("attention_bias").value_or(false)});
  config.rope_theta = read_rope_theta(fields, config.default_rope_theta);
  return config;
}

}  // namespace nanovllm
