// Names out of files, made fit for an error message: a file may hold a name of a megabyte, or one with
// control characters.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace nanovllm {

// At most 120 bytes and a mark where it was cut; control characters become '?', invalid UTF-8 becomes U+FFFD.
std::string printable(std::string_view name);

// "a, b, c and 7 more"
std::string first_few(const std::vector<std::string>& names);

// fail(kCheckpoint, ...) with the file in front.
template <class... Parts>
[[noreturn]] void fail_file(const std::filesystem::path& file, const Parts&... parts) {
  fail(ErrorKind::kCheckpoint, file.string(), ": ", parts...);
}

}  // namespace nanovllm
