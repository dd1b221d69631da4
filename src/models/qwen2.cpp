// Qwen2 and Qwen2.5 (dense): biases of q, k and v, always, and none of o; no norms of q and k.
// Qwen Team 2024, arXiv:2407.10671, section 2.2.
#include "models/families.h"

namespace nanovllm {

const Family kQwen2{.architecture = "Qwen2ForCausalLM",
                    .configure = [](ModelConfig& config, const FamilyFields&) { config.qkv_bias = true; },
                    .default_rope_theta = 10000,
                    .sliding_window = SlidingWindow::kIfUsed};

}  // namespace nanovllm
