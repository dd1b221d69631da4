// Any bytes as a config.json and as a generation_config.json: only Error may come out, and what is accepted is
// sound.
// Seeds: models/demo/config.json models/demo/generation_config.json tests/golden
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.h"
#include "base/error.h"
#include "models/generation_config.h"
#include "models/model_config.h"

namespace nanovllm {
namespace {

void try_model_config(const std::string& json) {
  try {
    const ModelConfig config = parse_model_config(json, "fuzz.json");
    ASSERT(config.vocab_size > 0 && config.hidden_size > 0 && config.intermediate_size > 0);
    ASSERT(config.num_layers > 0 && config.num_kv_heads > 0 && config.num_heads % config.num_kv_heads == 0);
    ASSERT(config.head_dim > 0 && config.head_dim % 2 == 0);
    ASSERT(config.max_model_len > 0 && config.max_model_len <= 1 << 24);
    ASSERT(config.rope.theta > 0 && config.rope.factor >= 1);
  } catch (const Error& error) {
    ASSERT(error.kind() == ErrorKind::kConfig || error.kind() == ErrorKind::kUnsupported);
  }
}

void try_generation_config(const std::string& json) {
  try {
    const GenerationConfig config = parse_generation_config(json, "fuzz.json");
    ASSERT(!config.temperature || *config.temperature >= 0);
    ASSERT(!config.min_p || (*config.min_p >= 0 && *config.min_p <= 1));
    ASSERT(!config.top_p || (*config.top_p > 0 && *config.top_p <= 1));
    for (const TokenId id : config.eos_token_ids) ASSERT(id >= 0);
  } catch (const Error& error) {
    ASSERT(error.kind() == ErrorKind::kConfig);
  }
}

}  // namespace
}  // namespace nanovllm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string json(reinterpret_cast<const char*>(data), size);
  nanovllm::try_model_config(json);
  nanovllm::try_generation_config(json);
  return 0;
}
