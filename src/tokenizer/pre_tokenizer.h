// Pre-tokenizers: cut normalised text into the words that BPE works on (Hugging Face tokenizers,
// pre_tokenizers/ and SplitDelimiterBehavior in tokenizer/pattern.rs). Each step cuts the pieces of the step
// before.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/pattern.h"

namespace nanovllm {

// What becomes of a match.
enum class SplitBehavior {
  kIsolated,            // a piece of its own
  kRemoved,             // dropped
  kMergedWithPrevious,  // the end of the piece before it
  kMergedWithNext,      // the start of the piece after it
  kContiguous,          // one piece with the matches that touch it
};
enum class SplitAt {
  kMatches,
  kBetweenMatches
};  // kBetweenMatches: "invert": what lies between is the match

struct PreTokenizerStep {
  enum class SpacePrefix { kNone, kAdd };

  SpacePrefix space_prefix = SpacePrefix::kNone;  // before every piece that does not begin with a space
  std::vector<Pattern> pattern;                   // one, or none: no cuts
  SplitBehavior behavior = SplitBehavior::kIsolated;
  SplitAt split_at = SplitAt::kMatches;
};

// The pieces of one text; they point into the text and into owned.
struct Words {
  std::vector<std::string_view> pieces;
  std::deque<std::string> owned;
};

// text is valid UTF-8 and not empty. throws Error(kRequest): see Pattern::find_parts
Words pre_tokenize(const std::vector<PreTokenizerStep>& steps, std::string_view text);

}  // namespace nanovllm
