#include "models/model_config.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "checkpoint/printable.h"
#include "models/families.h"
#include "models/json_fields.h"
#include "models/rope_config.h"

namespace nanovllm {
namespace {

constexpr int64_t kMaxSize = int64_t{1}
                             << 24;  // no dimension of a model comes near; keeps products in 64 bits

// Fields that change the result, by name and the values under which they do not.
void refuse_unsupported(const JsonFields& fields) {
  if (const auto act = fields.text("hidden_act"); act && *act != "silu")
    fail(ErrorKind::kUnsupported, fields.where(), ": hidden_act is ", *act, ", want silu");
  if (const std::optional<JsonFields> quantization = fields.object("quantization_config"))
    fail(ErrorKind::kUnsupported, fields.where(), ": the weights are quantized (quant_method ",
         quantization->text("quant_method").value_or("not named"),
         "), want plain f32, f16 or bf16 weights: take the folder that it was made from");
  for (const char* key :
       {"partial_rotary_factor", "embedding_multiplier", "residual_multiplier", "logits_scaling"})
    if (fields.number(key).value_or(1) != 1)
      fail(ErrorKind::kUnsupported, fields.where(), ": ", key, " other than 1 is not implemented");
  for (const char* key : {"num_experts", "num_local_experts"})
    if (fields.number(key).value_or(0) != 0)
      fail(ErrorKind::kUnsupported, fields.where(), ": has ", key, ", which is not implemented");
  for (const char* key : {"rope_interleaved", "use_mrope", "use_qk_norm", "use_bidirectional_attention"})
    if (fields.boolean(key).value_or(false))
      fail(ErrorKind::kUnsupported, fields.where(), ": ", key, " is true, want false");
  if (!fields.boolean("is_causal").value_or(true))
    fail(ErrorKind::kUnsupported, fields.where(), ": is_causal is false, want true");
  for (const char* key : {"attention_multiplier", "query_pre_attn_scalar", "attn_logit_softcapping",
                          "final_logit_softcapping", "attention_chunk_size", "no_rope_layers", "clip_qkv"})
    if (fields.find(key))
      fail(ErrorKind::kUnsupported, fields.where(), ": has ", key, ", which is not implemented");
}

// How many keys a position may see at most, where some layer slides; none: all of them. Defaults as Hugging Face's.
std::optional<int64_t> read_sliding_window(const JsonFields& fields, const Family& family, int num_layers) {
  constexpr int64_t kDefaultWindow = 4096, kDefaultMaxWindowLayers = 28;
  std::optional<int64_t> window = fields.integer("sliding_window", 1, kMaxSize);
  const bool used = fields.boolean("use_sliding_window").value_or(false);
  const int64_t first_layer =
      fields.integer("max_window_layers", 0, kMaxSize).value_or(kDefaultMaxWindowLayers);
  if (!window && !fields.has_null("sliding_window")) window = kDefaultWindow;
  if (const nlohmann::json* types = fields.find("layer_types")) {
    bool slides = false;
    for (const nlohmann::json& type : *types) {
      if (type != "full_attention" && type != "sliding_attention")
        fail(ErrorKind::kUnsupported, fields.where(), ": layer_types has ", type.dump(),
             ", want only full_attention and sliding_attention");
      slides |= type == "sliding_attention";
    }
    return slides ? window : std::nullopt;
  }
  switch (family.sliding_window) {
    case SlidingWindow::kNone:
      return std::nullopt;
    case SlidingWindow::kIfUsed:
      return used && first_layer < num_layers ? window : std::nullopt;
    case SlidingWindow::kUnlessNull:
      return window;
  }
  return std::nullopt;
}

// Attention sees all keys: right as long as no sequence outgrows the window.
void limit_to_window(const JsonFields& fields, const Family& family, ModelConfig& config) {
  const std::optional<int64_t> window = read_sliding_window(fields, family, config.num_layers);
  if (!window || *window >= config.max_model_len) return;
  std::ostringstream message;
  message << fields.where() << ": has a sliding_window, which is not implemented, of " << *window
          << " tokens: no sequence can be longer than that";
  warn(message.str());
  config.max_model_len = int(*window);
}

// About training, storing, and Hugging Face's own code: they change no answer.
constexpr std::string_view kHarmlessFields[] = {
    "model_type",        "transformers_version", "transformers.js_config",
    "initializer_range", "attention_dropout",    "use_cache",
    "bos_token_id",      "pad_token_id",         "pretraining_tp",
    "is_llama_config",   "_name_or_path",        "_attn_implementation_autoset",
    "unsloth_fixed",     "unsloth_version",      "original_max_position_embeddings"};

void warn_of_unread(const JsonFields& fields) {
  std::vector<std::string> unread = fields.unread();
  std::erase_if(unread, [](const std::string& key) {
    return std::find(std::begin(kHarmlessFields), std::end(kHarmlessFields), key) !=
           std::end(kHarmlessFields);
  });
  if (!unread.empty())
    warn(fields.where() + ": has " + first_few(unread) + ", which nanovllm does not know and leaves out");
}

std::string read_architecture(const JsonFields& fields) {
  const nlohmann::json* names = fields.find("architectures");
  if (!names || !names->is_array() || names->empty() || !(*names)[0].is_string())
    fail(ErrorKind::kConfig, fields.where(), ": architectures is ",
         names ? names->dump().substr(0, 80) : "missing",
         ", want a list with a name, such as [\"Qwen3ForCausalLM\"]");
  return (*names)[0].get<std::string>();
}

std::optional<DType> read_dtype(const JsonFields& fields) {
  const std::optional<std::string> dtype = fields.text("dtype"), old_name = fields.text("torch_dtype");
  if (dtype && old_name && *dtype != *old_name)
    fail(ErrorKind::kConfig, fields.where(), ": dtype is ", *dtype, " and torch_dtype is ", *old_name,
         ", want one value");
  const std::string name = dtype ? *dtype : old_name.value_or("");
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  if (name == "float32") return DType::kF32;
  return std::nullopt;
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
  config.dtype = read_dtype(fields);
  config.eos_token_ids = fields.token_ids("eos_token_id");

  family.configure(config, {.attention_bias = fields.boolean("attention_bias").value_or(false),
                            .mlp_bias = fields.boolean("mlp_bias").value_or(false)});
  config.rope = read_rope_config(fields, family.default_rope_theta, config.max_position_embeddings);
  config.max_model_len = max_model_len(config.rope, config.max_position_embeddings);
  limit_to_window(fields, family, config);
  warn_of_unread(fields);
  return config;
}

}  // namespace nanovllm
