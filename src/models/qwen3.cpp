// Qwen3 (dense): q and k are normalised per head before RoPE; no bias unless attention_bias asks for it, and then the norms
// stay; theta 1,000,000. Qwen Team 2025, arXiv:2505.09388, section 2.
#include "models/families.h"

namespace nanovllm {

const Family kQwen3{.architecture = "Qwen3ForCausalLM",
                    .configure =
                        [](ModelConfig& config, const FamilyFields& fields) {
                          config.qk_norm = true;
                          config.qkv_bias = config.o_bias = fields.attention_bias;
                        },
                    .default_rope_theta = 1e6,
                    .sliding_window = SlidingWindow::kIfUsed};

}  // namespace nanovllm
