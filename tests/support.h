// What several test programs share: paths, scratch folders, and errors compared by their text.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace nanovllm::test {

// Folders are set when configuring (-D), or by environment variables of the same names when testing.
inline std::filesystem::path outside_dir(const char* variable, const char* configured) {
  const char* given = std::getenv(variable);
  return given ? given : configured;
}
// Where this was built, unless an environment variable says that it was copied elsewhere.
inline std::filesystem::path source_dir() { return outside_dir("NANOVLLM_SOURCE_DIR", NANOVLLM_SOURCE_DIR); }
inline std::filesystem::path golden(const std::string& name) {
  return source_dir() / "tests" / "golden" / name;
}
inline std::filesystem::path demo_model() { return source_dir() / "models" / "demo"; }
// Other people's files, which are never in the repository; tests skip where they are absent.
// tokenizer.json and tokenizer_config.json of Qwen3, and chat.jsonl: what transformers makes of conversations.
inline std::filesystem::path qwen3_tokenizer_dir() {
  return outside_dir("NANOVLLM_QWEN3_TOKENIZER", NANOVLLM_QWEN3_TOKENIZER);
}
// templates/: published chat templates; conversations.json and expected.jsonl: what transformers renders.
inline std::filesystem::path chat_templates_dir() {
  return outside_dir("NANOVLLM_CHAT_TEMPLATES", NANOVLLM_CHAT_TEMPLATES);
}

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
