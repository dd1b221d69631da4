// A model's chat template: messages to the prompt that the model was trained on.
//
// The template is Jinja, as Hugging Face transformers renders it (trim_blocks, lstrip_blocks, loop controls,
// its own tojson, the sandbox); jinja_*.h hold the interpreter. Parsed once; a ChatTemplate never changes
// after that, and threads may share it.
#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tokenizer/chat_messages.h"
#include "tokenizer/jinja_json.h"
#include "tokenizer/jinja_value.h"
#include "tokenizer/prompt_text.h"

namespace nanovllm {

namespace jinja {
struct Template;
}

struct ChatOptions {
  bool add_generation_prompt = true;    // end with the opening of the assistant's turn
  std::optional<bool> enable_thinking;  // absent: the variable stays undefined and the template decides
};

class ChatTemplate {
 public:
  // name: what errors call the template.
  // throws Error(kConfig) "name:line:column: ...": the template cannot be parsed
  ChatTemplate(std::string_view source, std::string name);

  // The template of a model folder: chat_template.jinja, else "chat_template" of tokenizer_config.json (a
  // string, or a list of {"name", "template"}, of which "default" is taken). bos_token, eos_token
  // and the other special tokens that tokenizer_config.json names are passed on every render. Nothing if the folder has no template. throws
  // Error(kConfig): a file that cannot be understood, or the template cannot be parsed
  static std::optional<ChatTemplate> load(const std::filesystem::path& model_folder);

  // variables: a dict with messages, add_generation_prompt, tools ... tools and documents are none when
  // absent. now: what strftime_now() prints. throws Error(kRequest) "name:line:column: ...": raise_exception,
  // wrong types, or more than a render may cost
  // The result knows which bytes came from the variables and which from the template (or is a special token that
  // it was given).
  PromptText render(const jinja::Value& variables, std::time_t now = std::time(nullptr)) const;
  PromptText render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;
  // messages: a list of dicts as a template expects them (prepare_messages).
  PromptText render_messages(const jinja::Value& messages, const ChatOptions& options = {}) const;

 private:
  std::shared_ptr<const jinja::Template> template_;  // shared by copies; immutable
  jinja::Dict defaults_;                             // variables that a render may replace
};

}  // namespace nanovllm
