// How messages become a prompt, as a user says it on the command line.
#pragma once

#include <string>

#include "tokenizer/chat_template.h"

namespace nanovllm::cli {

struct ChatFlags {
  std::string system;     // a system message first, where the messages have none
  bool no_think = false;  // enable_thinking = false
  bool special_tokens_in_messages = false;
};

// messages: a list of dicts (chat_messages.h). throws Error(kRequest): what the template refuses
PromptText render_chat(const ChatTemplate& chat_template, const jinja::Value& messages,
                       const ChatFlags& flags);

}  // namespace nanovllm::cli
