// Files as bytes: memory-mapped for what is large, read whole for what is small.
//
// Every error names the path and the reason ("model/config.json: cannot open: No such file or directory").
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace nanovllm {

// A read-only mapping of a whole file; unmapped once. An empty file gives an empty span.
// throws Error(kDevice): missing, a folder, not readable, cannot be mapped
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

// The whole file as a string.
// throws Error(kDevice): as MappedFile; or the file has more than max_bytes
std::string read_file(const std::filesystem::path& path, size_t max_bytes = size_t{256} << 20);

}  // namespace nanovllm
