// Writes safetensors files for tests: right ones from tensors, and any others from a header and data as
// given.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace nanovllm::test {

struct NamedTensor {
  std::string name;
  std::string dtype;  // as the file writes it: "F32", "F16", "BF16", "I32" ...
  std::vector<int64_t> shape;
  std::string bytes;
};

// named_tensor("weight", "BF16", {2, 3}, std::vector<uint16_t>{...}): the values are written as they lie in
// memory.
template <class T>
NamedTensor named_tensor(std::string name, std::string dtype, std::vector<int64_t> shape,
                         const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return {std::move(name), std::move(dtype), std::move(shape), std::move(bytes)};
}

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), std::streamsize(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

// Length, header and data, whatever they say.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += char(uint64_t{header.size()} >> (8 * i) & 0xFF);
  return file.append(header).append(data);
}

// Names must need no escapes in JSON. The data begins at a file offset of 8k + misalignment: the header is
// padded with spaces.
inline std::string safetensors_bytes(const std::vector<NamedTensor>& tensors, size_t misalignment = 0) {
  std::string header = R"({"__metadata__":{"format":"pt"})", data;
  for (const NamedTensor& tensor : tensors) {
    header.append(",\"")
        .append(tensor.name)
        .append(R"(":{"dtype":")")
        .append(tensor.dtype)
        .append(R"(","shape":[)");
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      header.append(i ? "," : "").append(std::to_string(tensor.shape[i]));
    header.append(R"(],"data_offsets":[)").append(std::to_string(data.size()));
    data += tensor.bytes;
    header.append(",").append(std::to_string(data.size())).append("]}");
  }
  header += "}";
  while (header.size() % 8 != misalignment % 8) header += ' ';
  return safetensors_bytes(header, data);
}

inline void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                              size_t misalignment = 0) {
  write_bytes(path, safetensors_bytes(tensors, misalignment));
}

}  // namespace nanovllm::test
