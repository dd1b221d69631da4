// nanovllm tokenize: text to token ids and back, with a model's tokenizer alone.
//
// As Hugging Face's tokenizer does it: special tokens are recognised wherever they stand, in messages too.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace nanovllm::cli {

struct TokenizeOptions {
  std::filesystem::path model;      // folder with tokenizer.json
  std::optional<std::string> text;  // what to tokenize, or with decode the ids; none: input
  std::string input = "-";          // file, "-" = standard input
  std::string chat;                 // file of messages, "-" = standard input, "" = none
  bool decode = false;              // ids to text
  bool count = false;               // only how many
  bool verbose = false;             // one token a line: id, text, bytes
  bool no_special_tokens = false;   // without those that tokenizer.json puts around a text (BOS)
};

// The exit code. throws Error
int run_tokenize(const TokenizeOptions& options);

}  // namespace nanovllm::cli
