#include "checkpoint/safetensors_writer.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace nanovllm {

void write_safetensors(const std::filesystem::path& path, const std::vector<WrittenTensor>& tensors) {
  static_assert(std::endian::native == std::endian::little, "the format's order of bytes");
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  size_t offset = 0;
  for (const WrittenTensor& tensor : tensors) {
    const size_t end = offset + tensor.values.size() * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data begins at a multiple of 8
  const uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  for (const WrittenTensor& tensor : tensors)
    file.write(reinterpret_cast<const char*>(tensor.values.data()),
               std::streamsize(tensor.values.size() * sizeof(float)));
  if (!file.flush()) fail(ErrorKind::kDevice, path.string(), ": cannot write: ", std::strerror(errno));
}

}  // namespace nanovllm
