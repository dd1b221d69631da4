// The table of cosines and sines that ops/rope.h reads, for every position up to max_positions.
//
//   angle = position · inv_freq_i in float32, as Hugging Face has it; cos and sin of that angle in double, times
//   attention_factor, rounded once. Row: rotary_dim / 2 cosines, then as many sines.
//
// Frequencies, for pair i of rotary_dim / 2 (Su et al. 2021, arXiv:2104.09864, section 3.2.2):
//
//   default   f_i = theta^(−2i / rotary_dim)
//   linear    f_i / factor
//   llama3    f_i, where its wavelength 2π / f_i is below original / high_freq_factor; f_i / factor, where it is above
//             original / low_freq_factor; between, a blend linear in original / wavelength (the Llama 3.1 release)
//   yarn      f_i, where a pair turns more than beta_fast times in the original context; f_i / factor, where it turns less than
//             beta_slow times; between, a blend linear in i. Everything times attention_factor
//             (Peng et al. 2023, arXiv:2309.00071, sections 3.2 to 3.4)
#pragma once

#include <optional>
#include <vector>

#include "ops/context.h"
#include "tensor/device.h"

namespace nanovllm {

enum class RopeType { kDefault, kLinear, kYarn, kLlama3 };

// As config.json has it.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 0;
  double factor = 1;               // how many times longer the context became: all types but default
  int original_max_positions = 0;  // yarn, llama3: the context before that

  double low_freq_factor = 1, high_freq_factor = 4;  // llama3

  double beta_fast = 32, beta_slow = 1;    // yarn: turns
  bool truncate = true;                    // yarn: the blend begins and ends at whole i
  std::optional<double> attention_factor;  // yarn; none: by factor, or by the two below where both are given
  double mscale = 0, mscale_all_dim = 0;   // yarn; 0: not given

  bool operator==(const RopeConfig&) const = default;
};

class RotaryEmbedding {
 public:
  RotaryEmbedding(const Device& device, int rotary_dim, int max_positions, const RopeConfig& config);

  const Tensor& cos_sin() const { return cos_sin_; }  // [max_positions, rotary_dim] f32
  size_t bytes() const { return storage_.bytes(); }

  static std::vector<float> inverse_frequencies(int rotary_dim, const RopeConfig& config);
  static double attention_factor(const RopeConfig& config);  // of cosines and sines

 private:
  DeviceBuffer storage_;
  Tensor cos_sin_;
};

}  // namespace nanovllm
