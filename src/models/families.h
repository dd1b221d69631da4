// Model families: small switches of the one shared decoder (models/decoder.h). A new one is a file like
// qwen3.cpp, a name below and one in families.cpp.
#pragma once

#include <span>
#include <string_view>

#include "models/model_config.h"

namespace nanovllm {

// What a family may ask config.json for.
struct FamilyFields {
  bool attention_bias = false, mlp_bias = false;  // false where config.json has none
};

// Whether Hugging Face's model of the family lets a position see only the last sliding_window keys.
enum class SlidingWindow {
  kNone,
  kIfUsed,      // where use_sliding_window is true, in layers from max_window_layers on
  kUnlessNull,  // where sliding_window is not null
};

struct Family {
  std::string_view architecture;  // config.json: architectures[0]
  void (*configure)(ModelConfig& config, const FamilyFields& fields);
  double default_rope_theta = 10000;
  SlidingWindow sliding_window = SlidingWindow::kNone;
};

extern const Family kLlama, kMistral, kQwen2, kQwen3;

std::span<const Family* const> families();

// throws Error(kUnsupported), naming the known ones
const Family& find_family(std::string_view architecture, std::string_view where);

}  // namespace nanovllm
