#include "models/rope_config.h"

#include <algorithm>
#include <cmath>

#include "models/json_fields.h"

namespace nanovllm {
namespace {

RopeType read_type(const JsonFields& rope) {
  const std::optional<std::string> type = rope.text("rope_type"), old_name = rope.text("type");
  if (type && old_name && *type != *old_name)
    fail(ErrorKind::kConfig, rope.where(), ": rope_type is ", *type, " and type is ", *old_name,
         ", want one value");
  const std::string name = type ? *type : old_name.value_or("default");
  if (name == "default") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "yarn") return RopeType::kYarn;
  if (name == "llama3") return RopeType::kLlama3;
  if (name == "dynamic")
    fail(ErrorKind::kUnsupported, rope.where(),
         ": rope_type is dynamic, by which an answer would depend on its length: want default, linear, yarn "
         "or llama3");
  fail(ErrorKind::kUnsupported, rope.where(), ": rope_type is ", name,
       ", want default, linear, yarn or llama3");
}

// What the type does not read would change the result, or is a mistake.
void refuse_unread(const JsonFields& rope) {
  if (rope.find("attn_factor"))
    fail(ErrorKind::kUnsupported, rope.where(),
         ": has attn_factor, which Hugging Face leaves out and others multiply with: take it out, or write "
         "attention_factor, which replaces 0.1 ln(factor) + 1");
  if (rope.number("partial_rotary_factor").value_or(1) != 1)
    fail(ErrorKind::kUnsupported, rope.where(), ": partial_rotary_factor other than 1 is not implemented");
  rope.find("finetuned");  // tells how a model was made
  if (const std::vector<std::string> unread = rope.unread(); !unread.empty())
    fail(ErrorKind::kUnsupported, rope.where(), ": has ", unread[0],
         ", which is not implemented for its rope_type");
}

double read_positive(const JsonFields& rope, const char* key, std::optional<double> absent) {
  const std::optional<double> value = rope.number(key);
  if (!value && !absent) fail(ErrorKind::kConfig, rope.where(), ": has no ", key);
  const double result = value.value_or(absent.value_or(0));
  if (!(result > 0) || !std::isfinite(result))
    fail(ErrorKind::kConfig, rope.where(), ": ", key, " is ", result, ", want a positive number");
  return result;
}

double read_factor(const JsonFields& rope) {
  const double factor = read_positive(rope, "factor", std::nullopt);
  if (factor < 1) fail(ErrorKind::kConfig, rope.where(), ": factor is ", factor, ", want at least 1");
  return factor;
}

// All but theta.
RopeConfig read_rope(const JsonFields& fields, const JsonFields& rope, int max_position_embeddings) {
  RopeConfig config;
  config.type = read_type(rope);
  if (config.type == RopeType::kDefault) return config;
  config.factor = read_factor(rope);
  if (config.type == RopeType::kLinear) return config;
  std::optional<int64_t> original = rope.integer("original_max_position_embeddings", 1, 1 << 24);
  const std::optional<int64_t> outside = fields.integer("original_max_position_embeddings", 1, 1 << 24);
  if (original && outside && *original != *outside)
    fail(ErrorKind::kConfig, fields.where(), ": original_max_position_embeddings is ", *outside, ", and ",
         *original, " in the rope fields, want one value");
  if (!original) original = outside;
  if (config.type == RopeType::kLlama3) {
    if (!original) fail(ErrorKind::kConfig, rope.where(), ": has no original_max_position_embeddings");
    config.original_max_positions = int(*original);
    config.low_freq_factor = read_positive(rope, "low_freq_factor", std::nullopt);
    config.high_freq_factor = read_positive(rope, "high_freq_factor", std::nullopt);
    if (!(config.low_freq_factor < config.high_freq_factor))
      fail(ErrorKind::kConfig, rope.where(), ": low_freq_factor is ", config.low_freq_factor,
           ", want less than high_freq_factor=", config.high_freq_factor);
    return config;
  }
  config.original_max_positions = int(original.value_or(max_position_embeddings));
  if (rope.number("attention_factor"))
    config.attention_factor = read_positive(rope, "attention_factor", std::nullopt);
  config.beta_fast = read_positive(rope, "beta_fast", config.beta_fast);
  config.beta_slow = read_positive(rope, "beta_slow", config.beta_slow);
  if (config.beta_fast < config.beta_slow)
    fail(ErrorKind::kConfig, rope.where(), ": beta_fast is ", config.beta_fast,
         ", want at least beta_slow=", config.beta_slow);
  config.truncate = rope.boolean("truncate").value_or(true);
  config.mscale = rope.number("mscale").value_or(0);
  config.mscale_all_dim = rope.number("mscale_all_dim").value_or(0);
  return config;
}

}  // namespace

RopeConfig read_rope_config(const JsonFields& fields, double default_theta, int max_position_embeddings) {
  std::optional<double> theta = fields.number("rope_theta");
  std::optional<RopeConfig> config;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const std::optional<JsonFields> rope = fields.object(key);
    if (!rope) continue;
    const std::optional<double> nested = rope->number("rope_theta");
    if (theta && nested && *theta != *nested)
      fail(ErrorKind::kConfig, fields.where(), ": rope_theta is ", *theta, " and ", *nested, " in ", key,
           ", want one value");
    if (nested) theta = nested;
    const RopeConfig read = read_rope(fields, *rope, max_position_embeddings);
    refuse_unread(*rope);
    if (config && !(*config == read))
      fail(ErrorKind::kConfig, fields.where(),
           ": rope_parameters and rope_scaling disagree, want one of them");
    config = read;
  }
  if (!theta) {
    std::ostringstream message;
    message << fields.where() << ": has no rope_theta, taking the family's " << default_theta;
    warn(message.str());
    theta = default_theta;
  }
  if (!(*theta > 0) || !std::isfinite(*theta))
    fail(ErrorKind::kConfig, fields.where(), ": rope_theta is ", *theta, ", want a positive number");
  if (!config) config.emplace();
  config->theta = *theta;
  return *config;
}

int max_model_len(const RopeConfig& rope, int max_position_embeddings) {
  if (rope.type != RopeType::kYarn) return max_position_embeddings;
  return int(std::min<double>(rope.original_max_positions * rope.factor, 1 << 24));
}

}  // namespace nanovllm
