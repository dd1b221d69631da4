#include "cli/chat_flags.h"

#include <vector>

namespace nanovllm::cli {

PromptText render_chat(const ChatTemplate& chat_template, const jinja::Value& messages,
                       const ChatFlags& flags) {
  std::vector<jinja::Value> all = messages.items();
  const jinja::Value* role = all.empty() ? nullptr : all.front().as_dict().find("role");
  if (!flags.system.empty() && !(role && role->is_string() && role->text() == "system")) {
    const std::vector<ChatMessage> system{{"system", flags.system}};
    all.insert(all.begin(), to_value(system).items().front());
  }
  ChatOptions options;
  if (flags.no_think) options.enable_thinking = false;
  PromptText prompt = chat_template.render_messages(jinja::Value::list(std::move(all)), options);
  return flags.special_tokens_in_messages ? PromptText(prompt.str(), Origin::kTemplate) : prompt;
}

}  // namespace nanovllm::cli
