// Mistral, as far as it is a Llama in shape: no biases, and no sliding window that anything could slide out of (7B v0.1 has one).
// Jiang et al. 2023, arXiv:2310.06825, section 2.
#include "models/families.h"

namespace nanovllm {

const Family kMistral{.architecture = "MistralForCausalLM",
                      .configure = [](ModelConfig&, const FamilyFields&) {},
                      .default_rope_theta = 10000,
                      .sliding_window = SlidingWindow::kUnlessNull,
                      .default_sliding_window = 4096};

}  // namespace nanovllm
