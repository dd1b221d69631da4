// The one integer type of token ids, shared by tokenizer, engine and ops.
#pragma once

#include <cstdint>

namespace nanovllm {

using TokenId = int32_t;

}  // namespace nanovllm
