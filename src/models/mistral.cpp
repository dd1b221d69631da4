// Mistral: a Llama in shape, without biases. 7B v0.1 has a sliding window, and so its sequences end there.
// Jiang et al. 2023, arXiv:2310.06825, section 2.
#include "models/families.h"

namespace nanovllm {

const Family kMistral{.architecture = "MistralForCausalLM",
                      .configure = [](ModelConfig&, const FamilyFields&) {},
                      .default_rope_theta = 10000,
                      .sliding_window = SlidingWindow::kUnlessNull};

}  // namespace nanovllm
