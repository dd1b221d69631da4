// Reads Hugging Face's tokenizer.json into plain data. What this tokenizer does not do is refused with an
// error that names it; nothing is approximated.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace nanovllm {

struct TokenizerJson {
  std::shared_ptr<const void> document;  // what the model's texts are views of
  BpeModel model;
  std::vector<AddedToken> added_tokens;
  std::vector<NormalForm> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<TokenId> prefix_ids, suffix_ids;  // TemplateProcessing: around every text
};

// where: the file, for errors. throws Error(kConfig): not JSON, a field missing or of another type;
// Error(kUnsupported): a kind or an option that is not supported
TokenizerJson read_tokenizer_json(std::string_view json, std::string_view where);

// The texts that tokenizer_config.json gives; absent and null are nullopt.
struct TokenizerConfig {
  std::optional<std::string> bos_token, eos_token;
};
TokenizerConfig read_tokenizer_config(std::string_view json, std::string_view where);

}  // namespace nanovllm
