// Small templates, rendered with JSON variables at a fixed time.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "support.h"
#include "tokenizer/chat_template.h"

namespace nanovllm::test {

// 2025-01-01 00:00:00 local time.
inline std::time_t new_year() {
  std::tm parts{};
  parts.tm_year = 125;
  parts.tm_mday = 1;
  parts.tm_isdst = -1;
  return std::mktime(&parts);
}

inline std::string render(std::string_view source, std::string_view variables = "{}") {
  return ChatTemplate(source, "test").render(jinja::parse_json(variables), new_year()).str();
}

struct RenderCase {
  std::string source, want;
};

// Each source renders to what is wanted. An error counts as text, so that one bad case does not hide the
// others.
inline void expect_renders(const std::vector<RenderCase>& cases, std::string_view variables = "{}") {
  for (const RenderCase& c : cases) {
    std::string rendered;
    try {
      rendered = render(c.source, variables);
    } catch (const Error& error) {
      rendered = std::string("error: ") + error.what();
    }
    EXPECT_EQ(rendered, c.want) << c.source;
  }
}

// Each source fails while it renders, with this text in the message.
inline void expect_refuses(const std::vector<RenderCase>& cases, std::string_view variables = "{}") {
  for (const RenderCase& c : cases) {
    SCOPED_TRACE(c.source);
    expect_error(ErrorKind::kRequest, c.want, [&] { render(c.source, variables); });
  }
}

// Each source cannot be parsed.
inline void expect_misparses(const std::vector<RenderCase>& cases) {
  for (const RenderCase& c : cases) {
    SCOPED_TRACE(c.source);
    expect_error(ErrorKind::kConfig, c.want, [&] { ChatTemplate(c.source, "test"); });
  }
}

}  // namespace nanovllm::test
