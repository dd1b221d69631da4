// A tensor's values as float32, in order, wherever it lives and whatever its strides: for tests, traces and scores.
#pragma once

#include <vector>

#include "tensor/device.h"
#include "tensor/tensor.h"

namespace nanovllm {

// tensor: f32, f16 or bf16. Waits for what runs on the device.
std::vector<float> copy_to_host(const Device& device, const Tensor& tensor);

}  // namespace nanovllm
