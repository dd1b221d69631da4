#include "models/families.h"

#include <string>

#include "base/error.h"

namespace nanovllm {

std::span<const Family* const> families() {
  static constexpr const Family* kFamilies[] = {&kQwen3, &kQwen2, &kLlama, &kMistral};
  return kFamilies;
}

const Family& find_family(std::string_view architecture, std::string_view where) {
  std::string known;
  for (const Family* family : families()) {
    if (family->architecture == architecture) return *family;
    if (!known.empty()) known += ", ";
    known += family->architecture;
  }
  fail(ErrorKind::kUnsupported, where, ": architecture is ", architecture, ", want one of: ", known);
}

}  // namespace nanovllm
