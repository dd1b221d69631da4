#include "cli/chat_flags.h"

#include <vector>

namespace nanovllm::cli {

PromptText render_chat(const ChatTemplate& chat_template, std::span<const ChatMessage> messages,
                       const ChatFlags& flags) {
  std::vector<ChatMessage> all;
  const bool has_system = !messages.empty() && messages.front().role == "system";
  if (!flags.system.empty() && !has_system) all.push_back({"system", flags.system});
  all.insert(all.end(), messages.begin(), messages.end());
  ChatOptions options;
  if (flags.no_think) options.enable_thinking = false;
  PromptText prompt = chat_template.render(all, options);
  return flags.special_tokens_in_messages ? PromptText(prompt.str(), Origin::kTemplate) : prompt;
}

}  // namespace nanovllm::cli
