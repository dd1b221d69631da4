#include "llm/load_tokenizer.h"

namespace nanovllm {

std::optional<Tokenizer> load_tokenizer(const std::filesystem::path& model_folder) {
  std::error_code ignored;
  const auto type = std::filesystem::symlink_status(model_folder / "tokenizer.json", ignored).type();
  if (type == std::filesystem::file_type::not_found) return std::nullopt;
  return Tokenizer::load(model_folder);
}

}  // namespace nanovllm
