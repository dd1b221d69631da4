// Writes float32 tensors as a safetensors file, for other tools to read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nanovllm {

struct WrittenTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;  // as many as the shape says
};

// throws Error(kDevice): cannot write the file
void write_safetensors(const std::filesystem::path& path, const std::vector<WrittenTensor>& tensors);

}  // namespace nanovllm
