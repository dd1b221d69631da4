// What only a bug in this program can cause: prints and aborts, also in release builds.
#pragma once

namespace nanovllm {

[[noreturn]] void assert_failed(const char* condition, const char* file, int line);

}  // namespace nanovllm

#define ASSERT(condition) ((condition) ? void() : ::nanovllm::assert_failed(#condition, __FILE__, __LINE__))
