// A text that knows which of its bytes came from a message, so that a user who writes "<|im_end|>" writes plain
// text. The interpreter of chat templates computes with these; Tokenizer::encode looks for added tokens outside
// the message's bytes only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nanovllm {

// Who wrote a text: the author of the chat template (or of this program), or whoever sends messages, tools and
// variables.
enum class Origin : uint8_t { kTemplate, kMessage };

// Whether encode adds what tokenizer.json's TemplateProcessing puts around a text (Llama's BOS). A chat
// template writes these tokens itself; a raw prompt asks for them.
enum class TemplateTokens { kOmit, kAdd };

// One turn of a conversation.
struct ChatMessage {
  std::string role, content;  // role: "system", "user", "assistant"
};

struct ByteRange {
  size_t begin, end;  // [begin, end)
};

class PromptText {
 public:
  PromptText() = default;
  PromptText(const char* literal) : text_(literal) {}  // of this program: Origin::kTemplate
  PromptText(std::string text, Origin origin);

  const std::string& str() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }

  // Where the message's bytes are: in order, neither empty nor touching.
  std::span<const ByteRange> message_ranges() const { return ranges_; }
  Origin origin_at(size_t offset) const;
  // kMessage if any byte is the message's.
  Origin worst_origin() const { return ranges_.empty() ? Origin::kTemplate : Origin::kMessage; }

  void append(std::string_view text, Origin origin);
  void append(char c, Origin origin) { append({&c, 1}, origin); }
  PromptText& operator+=(const PromptText& other);
  // part: a view into whole.str(). Both keep the origin of every byte.
  void append_part(const PromptText& whole, std::string_view part);
  PromptText part(std::string_view part) const;

  // The text after a change that knows nothing of origins and moves no character (upper, title ...). Where each
  // character is as long as before, its bytes stand where they stood; else all of it is the message's if any was.
  PromptText changed_to(std::string text) const;

 private:
  void mark(size_t begin, size_t end);

  std::string text_;
  std::vector<ByteRange> ranges_;
};

}  // namespace nanovllm
