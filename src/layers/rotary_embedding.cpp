#include "layers/rotary_embedding.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nanovllm {
namespace {

// Everything below is float32 in Hugging Face's order: at position 100,000 the last bit of a frequency is a hundredth of a
// radian.

// theta^(2i / rotary_dim)
std::vector<float> position_frequencies(int rotary_dim, double theta) {
  std::vector<float> result(size_t(rotary_dim) / 2);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = float(std::pow(double(float(theta)), double(float(2 * i) / float(rotary_dim))));
  return result;
}

void llama3(std::vector<float>& inv_freq, const RopeConfig& c) {
  const float factor = float(c.factor), low = float(c.low_freq_factor),
              original = float(c.original_max_positions);
  const float shortest = float(c.original_max_positions / c.high_freq_factor),
              longest = float(c.original_max_positions / c.low_freq_factor);
  for (float& f : inv_freq) {
    const float wavelength = 1 / f * float(2 * std::numbers::pi);
    if (wavelength < shortest) continue;
    if (wavelength > longest) {
      f = f / factor;
      continue;
    }
    const float keep = (1 / wavelength * original - low) / float(c.high_freq_factor - c.low_freq_factor);
    f = (1 - keep) * f / factor + keep * f;
  }
}

// The i whose pair turns `turns` times in the original context.
double yarn_boundary(double turns, int rotary_dim, const RopeConfig& c) {
  return rotary_dim * std::log(c.original_max_positions / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(c.theta));
}

void yarn(std::vector<float>& inv_freq, const std::vector<float>& pos_freq, const RopeConfig& c) {
  const int rotary_dim = int(2 * inv_freq.size());
  double low = yarn_boundary(c.beta_fast, rotary_dim, c), high = yarn_boundary(c.beta_slow, rotary_dim, c);
  if (c.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, rotary_dim - 1.0);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const float ramp = std::clamp((float(i) - float(low)) / float(high - low), 0.0f, 1.0f);
    const float keep = 1 - ramp;
    inv_freq[i] = 1 / (float(c.factor) * pos_freq[i]) * (1 - keep) + inv_freq[i] * keep;
  }
}

// Peng et al. 2023, arXiv:2309.00071, equation 22, its logarithm scaled by mscale.
double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

}  // namespace

std::vector<float> RotaryEmbedding::inverse_frequencies(int rotary_dim, const RopeConfig& config) {
  const std::vector<float> pos_freq = position_frequencies(rotary_dim, config.theta);
  std::vector<float> inv_freq = pos_freq;
  for (float& f : inv_freq) f = 1 / f;
  switch (config.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear:
      for (float& f : inv_freq) f = f / float(config.factor);
      break;
    case RopeType::kLlama3:
      llama3(inv_freq, config);
      break;
    case RopeType::kYarn:
      yarn(inv_freq, pos_freq, config);
      break;
  }
  return inv_freq;
}

double RotaryEmbedding::attention_factor(const RopeConfig& c) {
  if (c.type != RopeType::kYarn) return 1;
  if (c.attention_factor) return *c.attention_factor;
  if (c.mscale != 0 && c.mscale_all_dim != 0)
    return yarn_scale(c.factor, c.mscale) / yarn_scale(c.factor, c.mscale_all_dim);
  return yarn_scale(c.factor, 1);
}

RotaryEmbedding::RotaryEmbedding(const Device& device, int rotary_dim, int max_positions,
                                 const RopeConfig& config) {
  const std::vector<float> inv_freq = inverse_frequencies(rotary_dim, config);
  const double factor = attention_factor(config);
  const size_t half = inv_freq.size();
  std::vector<float> table(size_t(max_positions) * 2 * half);
  for (size_t p = 0; p < size_t(max_positions); ++p) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = double(float(p) * inv_freq[i]);
      table[(2 * p) * half + i] = float(std::cos(angle) * factor);
      table[(2 * p + 1) * half + i] = float(std::sin(angle) * factor);
    }
  }
  storage_ = DeviceBuffer(device, table.size() * sizeof(float), "rope table");
  device.upload(storage_.data(), table.data(), storage_.bytes());
  cos_sin_ = Tensor::view(storage_.data(), DType::kF32, {max_positions, int64_t(2 * half)});
}

}  // namespace nanovllm
