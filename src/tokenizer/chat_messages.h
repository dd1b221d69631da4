// Messages of a conversation as chat APIs send them, and as chat templates expect them.
#pragma once

#include <span>
#include <string>

#include "tokenizer/jinja_value.h"
#include "tokenizer/prompt_text.h"

namespace nanovllm {

// A list of dicts with role and content.
jinja::Value to_value(std::span<const ChatMessage> messages);

// Messages by the rules of chat APIs, which templates are not written for: content that is absent or null
// becomes "", a list of parts {"type": "text", "text": ...} their texts joined by line ends. All other fields
// (tool_calls, name, reasoning_content ...) stay. value: what the client sent as `messages`.
// throws Error(kRequest) that begins with the place ("messages[1].content[0]: ..."): no messages, no role, or a
// part of another type
jinja::Value prepare_messages(const jinja::Value& value);

}  // namespace nanovllm
