// Unicode normalisation, NFC and NFKC (Unicode Standard Annex 15), with utf8proc's tables.
//
// Frozen at Unicode 9.0, as Hugging Face's is: a character that came later is left where and as it stands,
// though it may be a combining mark by now. The ids a model was trained on depend on it.
//
// Linear but for the sort of each run of combining marks, which is n log n: utf8proc's own is quadratic, and
// a request chooses the run.
#pragma once

#include <string>
#include <string_view>

namespace nanovllm {

enum class NormalForm { kNfc, kNfkc };

// text is valid UTF-8.
std::string normalize(std::string_view text, NormalForm form);

}  // namespace nanovllm
