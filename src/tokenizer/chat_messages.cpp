#include "tokenizer/chat_messages.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/error.h"

namespace nanovllm {

using jinja::Dict;
using jinja::Kind;
using jinja::Value;

namespace {

// "type image_url" or what the part is instead.
std::string part_name(const Value& part) {
  const Value* type = part.is_dict() ? part.as_dict().find("type") : nullptr;
  return type && type->is_string() ? "type " + type->text() : "a value of type " + type_name(part);
}

// The roles of chat APIs are fixed words, so a template may build a token of one ('<|' + role + '|>').
Value role_value(const std::string& role) {
  constexpr std::string_view kKnown[] = {"system", "user", "assistant", "tool", "developer"};
  const bool known = std::find(std::begin(kKnown), std::end(kKnown), role) != std::end(kKnown);
  return Value::string({role, known ? Origin::kTemplate : Origin::kMessage});
}

Value prepare_content(const Value* content, const std::string& where) {
  if (!content || content->is_none()) return Value::string("");
  if (content->is_string()) return *content;
  if (!content->is(Kind::kList))
    fail(ErrorKind::kRequest, where, ": is ", type_name(*content),
         ", want a text, a list of text parts, or null");
  PromptText joined;
  for (size_t i = 0; i < content->items().size(); ++i) {
    const Value& part = content->items()[i];
    const Value* type = part.is_dict() ? part.as_dict().find("type") : nullptr;
    const Value* text = part.is_dict() ? part.as_dict().find("text") : nullptr;
    if (!type || !type->is_string() || type->text() != "text" || !text || !text->is_string())
      fail(ErrorKind::kRequest, where, "[", i, "]: is ", part_name(part),
           ", want {\"type\": \"text\", \"text\": ...}: this model reads text only");
    if (i > 0) joined.append("\n", Origin::kMessage);
    joined += text->prompt_text();
  }
  return Value::string(std::move(joined));
}

}  // namespace

Value to_value(std::span<const ChatMessage> messages) {
  std::vector<Value> list;
  for (const ChatMessage& message : messages) {
    Dict dict;
    dict.set("role", role_value(message.role));
    dict.set("content", Value::string({message.content, Origin::kMessage}));
    list.push_back(Value::dict(std::move(dict)));
  }
  return Value::list(std::move(list));
}

Value prepare_messages(const Value& value) {
  if (!value.is(Kind::kList) || value.items().empty())
    fail(ErrorKind::kRequest, "messages: is ", value.is(Kind::kList) ? "empty" : type_name(value),
         ", want a list of messages");
  std::vector<Value> list;
  for (size_t i = 0; i < value.items().size(); ++i) {
    const Value& message = value.items()[i];
    const std::string where = "messages[" + std::to_string(i) + "]";
    const Value* role = message.is_dict() ? message.as_dict().find("role") : nullptr;
    if (!role || !role->is_string() || role->text().empty())
      fail(ErrorKind::kRequest, where, ": has no role, want {\"role\": \"user\", \"content\": \"...\"}");
    Dict dict = message.as_dict();
    dict.set("role", role_value(role->text()));
    dict.set("content", prepare_content(dict.find("content"), where + ".content"));
    list.push_back(Value::dict(std::move(dict)));
  }
  return Value::list(std::move(list));
}

}  // namespace nanovllm
