#include "layers/rotary_embedding.h"

#include <cmath>

#include "ops/rope.h"

namespace nanovllm {

std::vector<float> RotaryEmbedding::inverse_frequencies(int rotary_dim, double base) {
  std::vector<float> result(size_t(rotary_dim) / 2);
  for (size_t i = 0; i < result.size(); ++i) {
    const float exponent = float(2 * i) / float(rotary_dim);
    result[i] = 1.0f / float(std::pow(double(float(base)), double(exponent)));
  }
  return result;
}

RotaryEmbedding::RotaryEmbedding(const Device& device, int rotary_dim, int max_positions, double base) {
  const std::vector<float> inv_freq = inverse_frequencies(rotary_dim, base);
  const size_t half = inv_freq.size();
  std::vector<float> table(size_t(max_positions) * 2 * half);
  for (size_t p = 0; p < size_t(max_positions); ++p) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = double(float(p) * inv_freq[i]);
      table[(2 * p) * half + i] = float(std::cos(angle));
      table[(2 * p + 1) * half + i] = float(std::sin(angle));
    }
  }
  storage_ = DeviceBuffer(device, table.size() * sizeof(float), "rope table");
  device.upload(storage_.data(), table.data(), storage_.bytes());
  cos_sin_ = Tensor::view(storage_.data(), DType::kF32, {max_positions, int64_t(2 * half)});
}

void RotaryEmbedding::forward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& positions) const {
  rope(ctx, {.q = q, .k = k, .positions = positions, .cos_sin = cos_sin_});
}

}  // namespace nanovllm
