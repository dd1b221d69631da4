// Model families: small switches of the one shared decoder (models/decoder.h). A new one is a file like
// qwen3.cpp and a line in families.cpp.
#pragma once

#include <span>
#include <string_view>

#include "models/model_config.h"

namespace nanovllm {

// What a family may ask config.json for.
struct FamilyFields {
  bool attention_bias = false;  // config.json's attention_bias, false where it is absent
};

struct Family {
  std::string_view architecture;  // config.json: architectures[0]
  void (*configure)(ModelConfig& config, const FamilyFields& fields);
};

extern const Family kQwen3;

std::span<const Family* const> families();

// throws Error(kUnsupported), naming the known ones
const Family& find_family(std::string_view architecture, std::string_view where);

}  // namespace nanovllm
