// Prompts of a batch: from arguments, a text file (one a line), or JSONL.
//
// A JSONL line is an object with "prompt" (a string or a list of token ids) or "messages" (as chat APIs have
// them), and any of the parameters of docs/sampling.md, for this prompt
// alone.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/sampling_flags.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm::cli {

struct PromptLine {
  std::string text;                               // of "prompt"
  std::optional<std::vector<TokenId>> token_ids;  // of "prompt"
  std::optional<jinja::Value> messages;           // a list, prepared (chat_messages.h)
  SamplingFlags sampling;
  std::string error;  // what is wrong with this line; "" = nothing: the other lines go on
};

// "-" is standard input. By its ending, .jsonl or .json: JSONL; otherwise text. Empty lines are passed over.
// throws Error(kDevice): the file cannot be read
std::vector<PromptLine> read_prompts(const std::filesystem::path& path, const std::string& format = "auto");
PromptLine parse_prompt_line(const std::string& json, const std::string& where);

// All of a file, a pipe, or with "-" of standard input. throws Error(kDevice)
std::string read_text(const std::filesystem::path& path);

// visit(line, where) for each line that is not empty; where: "file.jsonl:3", for errors.
void visit_lines(const std::filesystem::path& path,
                 const std::function<void(const std::string& line, const std::string& where)>& visit);

// The tokens of a text with the model's own around it (BOS); without a tokenizer the text is parsed as token ids.
std::vector<TokenId> encode_text(const Tokenizer* tokenizer, const std::string& text);

// Numbers with white space, commas or brackets between, as `tokenize` and Python print them. throws Error(kRequest)
std::vector<TokenId> parse_ids(std::string_view text);

}  // namespace nanovllm::cli
