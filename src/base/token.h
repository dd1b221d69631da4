// The one integer type of token ids, shared by tokenizer, engine and ops.
#pragma once

#include <cstdint>

namespace nanovllm {

using TokenId = int32_t;

inline constexpr TokenId kNoTokenLeft = -2;  // in place of a sampled id: every token is masked

}  // namespace nanovllm
