#include "cli/output.h"

#include <cerrno>
#include <cstring>
#include <iostream>

#include "base/error.h"

namespace nanovllm::cli {

void check_printed() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0)
    fail(ErrorKind::kDevice, "standard output: cannot write: ", std::strerror(errno));
}

Output::Output(const std::string& path) : name_(path == "-" ? "standard output" : path) {
  if (path == "-") return;
  file_.open(path, std::ios::binary);
  if (!file_) fail(ErrorKind::kDevice, path, ": cannot open for writing: ", std::strerror(errno));
}

void Output::write(const std::string& text) {
  std::ostream& stream = file_.is_open() ? static_cast<std::ostream&>(file_) : std::cout;
  errno = 0;
  stream << text << std::flush;
  if (stream) return;
  fail(ErrorKind::kDevice, name_, ": cannot write: ", errno ? std::strerror(errno) : "it is closed");
}

}  // namespace nanovllm::cli
