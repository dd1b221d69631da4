// What several test programs share: paths, scratch folders, and errors compared by their text.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace nanovllm::test {

inline std::filesystem::path source_dir() { return NANOVLLM_SOURCE_DIR; }
inline std::filesystem::path golden(const std::string& name) {
  return source_dir() / "tests" / "golden" / name;
}
inline std::filesystem::path demo_model() { return source_dir() / "models" / "demo"; }
// Reference data that is other people's and therefore never in the repository; tests skip where it is absent.
inline std::filesystem::path shared_dir() { return source_dir().parent_path() / "shared"; }

// A fresh folder, removed at the end of the test.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "nanovllm-test-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// Expects Error of this kind whose text holds `part`.
template <class Body>
void expect_error(ErrorKind kind, std::string_view part, Body&& body) {
  try {
    body();
    ADD_FAILURE() << "no error, want one with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(int(error.kind()), int(kind)) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
        << "error: " << error.what() << "\nwant:  " << part;
  }
}

}  // namespace nanovllm::test
