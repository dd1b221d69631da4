// Llama 2 and 3, and who calls itself so, such as SmolLM2. No norms of q and k; biases where attention_bias (q, k,
// v and o) or mlp_bias ask for them. Llama Team 2024, arXiv:2407.21783, section 3.2.
#include "models/families.h"

namespace nanovllm {

const Family kLlama{.architecture = "LlamaForCausalLM",
                    .configure = [](ModelConfig& config, const FamilyFields& fields) {
                      config.qkv_bias = config.o_bias = fields.attention_bias;
                      config.mlp_bias = fields.mlp_bias;
                    }};

}  // namespace nanovllm
