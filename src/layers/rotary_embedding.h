// The table of cosines and sines that ops/rope.h reads, for every position up to max_positions.
//
//   inv_freq_i = base^(−2i / rotary_dim) and angle = position · inv_freq_i, both in float32 as Hugging Face
//   has them; cos and sin of that angle in double, rounded once. Row: rotary_dim / 2 cosines, then as many
//   sines.
#pragma once

#include <vector>

#include "ops/context.h"
#include "tensor/device.h"

namespace nanovllm {

class RotaryEmbedding {
 public:
  RotaryEmbedding(const Device& device, int rotary_dim, int max_positions, double base);

  // q [num_tokens, num_heads, head_dim], k [num_tokens, num_kv_heads, head_dim]: turned in place
  void forward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& positions) const;

  const Tensor& cos_sin() const { return cos_sin_; }  // [max_positions, rotary_dim] f32
  size_t bytes() const { return storage_.bytes(); }

  static std::vector<float> inverse_frequencies(int rotary_dim, double base);

 private:
  DeviceBuffer storage_;
  Tensor cos_sin_;
};

}  // namespace nanovllm
