#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace nanovllm {
namespace {

// An open file descriptor, closed once.
struct FileDescriptor {
  int value;
  ~FileDescriptor() { close(value); }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const FileDescriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.value < 0) fail(ErrorKind::kDevice, path.string(), ": cannot open: ", std::strerror(errno));
  struct stat status {};
  if (fstat(file.value, &status) != 0)
    fail(ErrorKind::kDevice, path.string(), ": cannot read: ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ErrorKind::kDevice, path.string(), ": is not a regular file");
  if (status.st_size == 0) return;
  const size_t size = size_t(status.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (data == MAP_FAILED) fail(ErrorKind::kDevice, path.string(), ": cannot map: ", std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string read_file(const std::filesystem::path& path, size_t max_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > max_bytes)
    fail(ErrorKind::kDevice, path.string(), ": has ", file.bytes().size(), " bytes, want at most ",
         max_bytes);
  return std::string(file.text());
}

}  // namespace nanovllm
