// nanovllm chat: a conversation in the terminal, or one answer to one prompt.
//
// Ctrl-C stops the answer, Ctrl-D the program. /reset forgets the conversation, /help lists what can be
// typed.
#pragma once

#include <optional>
#include <string>

#include "cli/chat_flags.h"
#include "cli/sampling_flags.h"
#include "llm/config.h"

namespace nanovllm::cli {

struct ChatCommandOptions {
  EngineConfig engine;
  SamplingFlags sampling;
  std::optional<std::string> prompt;  // answer this and end; none: a conversation
  ChatFlags chat;
};

// The exit code. throws Error
int run_chat(const ChatCommandOptions& options);

}  // namespace nanovllm::cli
