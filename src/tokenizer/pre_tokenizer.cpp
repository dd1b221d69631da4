#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

namespace nanovllm {
namespace {

// Joins neighbours front to back: a match that follows a non-match grows the piece before it.
void merge_with_previous(std::vector<PatternPart>& parts) {
  std::vector<PatternPart> merged;
  bool after_match = false;
  for (const PatternPart& part : parts) {
    if (part.is_match && !after_match && !merged.empty())
      merged.back().end = part.end;
    else
      merged.push_back(part);
    after_match = part.is_match;
  }
  parts = std::move(merged);
}

void merge_with_next(std::vector<PatternPart>& parts) {
  std::vector<PatternPart> merged;  // last first
  bool before_match = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->is_match && !before_match && !merged.empty())
      merged.back().begin = part->begin;
    else
      merged.push_back(*part);
    before_match = part->is_match;
  }
  std::reverse(merged.begin(), merged.end());
  parts = std::move(merged);
}

void merge_contiguous(std::vector<PatternPart>& parts) {
  std::vector<PatternPart> merged;
  for (const PatternPart& part : parts) {
    if (!merged.empty() && merged.back().is_match == part.is_match)
      merged.back().end = part.end;
    else
      merged.push_back(part);
  }
  parts = std::move(merged);
}

void split_piece(const PreTokenizerStep& step, std::string_view text, std::vector<std::string_view>& pieces) {
  std::vector<PatternPart> parts = step.pattern.front().find_parts(text);
  if (step.split_at == SplitAt::kBetweenMatches)
    for (PatternPart& part : parts) part.is_match = !part.is_match;
  switch (step.behavior) {
    case SplitBehavior::kIsolated:
      break;
    case SplitBehavior::kRemoved:
      parts.erase(
          std::remove_if(parts.begin(), parts.end(), [](const PatternPart& part) { return part.is_match; }),
          parts.end());
      break;
    case SplitBehavior::kMergedWithPrevious:
      merge_with_previous(parts);
      break;
    case SplitBehavior::kMergedWithNext:
      merge_with_next(parts);
      break;
    case SplitBehavior::kContiguous:
      merge_contiguous(parts);
      break;
  }
  for (const PatternPart& part : parts)
    if (part.begin < part.end) pieces.push_back(text.substr(part.begin, part.end - part.begin));
}

}  // namespace

Words pre_tokenize(const std::vector<PreTokenizerStep>& steps, std::string_view text) {
  Words words;
  words.pieces.push_back(text);
  for (const PreTokenizerStep& step : steps) {
    std::vector<std::string_view> pieces;
    for (std::string_view piece : words.pieces) {
      if (step.space_prefix == PreTokenizerStep::SpacePrefix::kAdd && piece.front() != ' ')
        piece = words.owned.emplace_back(" ").append(piece);
      if (step.pattern.empty())
        pieces.push_back(piece);
      else
        split_piece(step, piece, pieces);
    }
    words.pieces = std::move(pieces);
  }
  return words;
}

}  // namespace nanovllm
