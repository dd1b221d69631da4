#include "tokenizer/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace nanovllm {
namespace {

struct Answer {
  std::string text;
  std::optional<std::string> found;
  bool operator==(const Answer&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << "'" << answer.text << "', " << (answer.found ? "'" + *answer.found + "'" : "nothing");
}

// The definition, from the whole text.
Answer definition(const std::string& text, const std::vector<std::string>& stops, bool keep_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string* longest = nullptr;
    for (const std::string& stop : stops)
      if (text.substr(0, end).ends_with(stop) && (!longest || stop.size() > longest->size())) longest = &stop;
    if (longest) return {text.substr(0, keep_stop ? end : end - longest->size()), *longest};
  }
  return {text, {}};
}

// cuts: bit i: a piece ends behind byte i.
Answer in_pieces(const std::string& text, const std::vector<std::string>& stops, bool keep_stop,
                 uint32_t cuts) {
  StopMatcher matcher(stops, keep_stop);
  Answer answer;
  std::string piece, seen;
  for (size_t i = 0; i < text.size(); ++i) {
    piece += text[i];
    if (i + 1 < text.size() && !(cuts >> i & 1)) continue;
    seen += piece;
    answer.text += matcher.push(piece);
    piece.clear();
    if (matcher.found()) continue;
    // Only what may be the beginning of a stop string is held back.
    const std::string held = seen.substr(answer.text.size());
    bool begins_one = held.empty();
    for (const std::string& stop : stops) begins_one |= stop.size() > held.size() && stop.starts_with(held);
    EXPECT_TRUE(seen.starts_with(answer.text) && begins_one) << text << ": holds '" << held << "'";
  }
  answer.text += matcher.finish();
  answer.found = matcher.found();
  return answer;
}

TEST(StopMatcher, EverySplitOfTheTextGivesTheSame) {
  const std::vector<std::vector<std::string>> sets{{"lo wo"},
                                                   {"hello world"},
                                                   {"h"},
                                                   {"d"},
                                                   {"ell", "hello"},
                                                   {"hello", "ell", "o"},
                                                   {"l", "ll", "llo"},
                                                   {"lo", "lo world", "o w"},
                                                   {"world!", "orld"},
                                                   {"xyz", "or", "wor"}};
  const std::string text = "hello world";
  for (const auto& stops : sets)
    for (const bool keep : {false, true})
      for (uint32_t cuts = 0; cuts < 1u << (text.size() - 1); ++cuts)
        ASSERT_EQ(in_pieces(text, stops, keep, cuts), definition(text, stops, keep))
            << stops[0] << " " << cuts;
}

TEST(StopMatcher, TheFirstToEndWinsThenTheLongest) {
  const auto of = [](const std::string& text, const std::vector<std::string>& stops) {
    return in_pieces(text, stops, false, 0);
  };
  EXPECT_EQ(of("abcde", {"abcde", "bcd"}), (Answer{"a", "bcd"}));
  EXPECT_EQ(of("abcde", {"cd", "bcd", "d"}), (Answer{"a", "bcd"}));
  EXPECT_EQ(of("abcabd", {"abd"}), (Answer{"abc", "abd"}));
  EXPECT_EQ(of("aaab", {"aab"}), (Answer{"a", "aab"}));
  EXPECT_EQ(of("ababab!", {"ababa!", "bab!"}), (Answer{"aba", "bab!"}));
  EXPECT_EQ(of("text", {}), (Answer{"text", {}}));
  EXPECT_EQ(of("text st", {"stop"}), (Answer{"text st", {}}));  // held back, and given at the end
}

TEST(StopMatcher, CharactersOfSeveralBytes) {
  const std::string text = "caf\u00e9 \U0001f600\U0001f601 \u4f60\u597d";
  for (const std::vector<std::string>& stops : std::vector<std::vector<std::string>>{
           {"\U0001f601"}, {"\u597d"}, {"\u00e9 \U0001f600"}, {"\u00e8", "\u4f60"}})
    for (uint32_t cuts = 0; cuts < 1u << 12; ++cuts)
      ASSERT_EQ(in_pieces(text, stops, false, cuts * 2654435761u), definition(text, stops, false));
}

TEST(StopMatcher, IsItsDefinitionOnRandomTexts) {
  std::mt19937 random(1);
  const auto word = [&](size_t most) {
    std::string letters(1 + random() % most, 'a');
    for (char& c : letters) c = char('a' + random() % 2);
    return letters;
  };
  int num_found = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::string> stops(1 + random() % 4);
    for (std::string& stop : stops) stop = word(6);
    const std::string text = word(24);
    const bool keep = random() % 2;
    const Answer want = definition(text, stops, keep);
    ASSERT_EQ(in_pieces(text, stops, keep, uint32_t(random())), want) << text;
    num_found += want.found.has_value();
  }
  EXPECT_GT(num_found, 5000);
  EXPECT_LT(num_found, 19900);
}

TEST(StopMatcher, NothingComesBehindWhatWasFound) {
  StopMatcher matcher({"stop"}, false);
  EXPECT_EQ(matcher.push("a st"), "a ");
  EXPECT_EQ(matcher.push("op b"), "");
  EXPECT_EQ(matcher.found(), "stop");
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.finish(), "");
}

}  // namespace
}  // namespace nanovllm
