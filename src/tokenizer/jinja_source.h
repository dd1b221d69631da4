// A template's text and how a place in it is named in messages.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace nanovllm::jinja {

struct Source {
  std::string name;
  std::string text;  // UTF-8, line ends are \n

  // "name:line:column", both from 1, columns in characters.
  std::string where(size_t offset) const;

  template <class... Parts>
  [[noreturn]] void fail_at(size_t offset, const Parts&... parts) const {
    fail(ErrorKind::kConfig, where(offset), ": ", parts...);
  }
};

// Makes all line ends \n and drops one at the very end, as Jinja does before anything else.
// throws Error(kConfig): not UTF-8
Source make_source(std::string name, std::string_view text);

}  // namespace nanovllm::jinja
