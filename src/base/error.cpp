#include "base/error.h"

#include <cstdio>
#include <cstdlib>

#include "base/assert.h"

namespace nanovllm {

void warn(const std::string& message) { std::fprintf(stderr, "nanovllm: warning: %s\n", message.c_str()); }

void assert_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "nanovllm: bug: %s does not hold at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace nanovllm
