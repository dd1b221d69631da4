// The tokenizer of a model folder that may have none.
#pragma once

#include <filesystem>
#include <optional>

#include "tokenizer/tokenizer.h"

namespace nanovllm {

// null where the folder has no tokenizer.json: such a model is run with token ids. throws Error: as Tokenizer::load
std::optional<Tokenizer> load_tokenizer(const std::filesystem::path& model_folder);

}  // namespace nanovllm
