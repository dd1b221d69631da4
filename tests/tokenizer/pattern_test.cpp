#include "tokenizer/pattern.h"

#include "base/unicode.h"
#include "support.h"
#include "tokenizer/tiny.h"

namespace nanovllm {
namespace {

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  std::vector<std::string> out;
  for (const PatternPart& part : Pattern::regex(pattern, "p").find_parts(text))
    if (part.is_match) out.push_back(text.substr(part.begin, part.end - part.begin));
  return out;
}

// The property White_Space: PCRE2's own \s takes U+180E as well.
TEST(Pattern, WhiteSpaceIsUnicodes) {
  for (const int c : {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029,
                      0x202F, 0x205F, 0x3000}) {
    std::string text;
    append_utf8(text, char32_t(c));
    EXPECT_EQ(matches("\\s", text).size(), 1u) << std::hex << c;
    EXPECT_EQ(matches("[^\\S]", text).size(), 1u) << std::hex << c;
  }
  for (const int c : {0x180E, 0x200B, 0x2060, 0xFEFF, 0x1C, 0x1F, 0x61}) {
    std::string text;
    append_utf8(text, char32_t(c));
    EXPECT_EQ(matches("\\S", text).size(), 1u) << std::hex << c;
    EXPECT_EQ(matches("\\s", text).size(), 0u) << std::hex << c;
  }
}

TEST(Pattern, NumbersAreDecimalLetterAndOther) {
  EXPECT_EQ(matches("\\p{N}", "1\u0661\u2167\u00bd\u00b2x").size(), 5u);
  EXPECT_EQ(matches("\\d", "1\u0661\u2167\u00bd\u00b2x").size(), 2u);
}

TEST(Pattern, WhatOnigurumaReadsDifferentlyIsRefused) {
  const auto refused = [](const std::string& pattern, const std::string& part) {
    test::expect_error(ErrorKind::kUnsupported, "t.json: pattern \"" + pattern + "\" uses " + part,
                       [&] { Pattern::regex(pattern, "t.json"); });
  };
  refused("a\\w", "\\w at byte 1, which is not supported");
  for (const std::string escape : {"\\W", "\\b", "\\B", "\\h", "\\H", "\\v", "\\R", "\\X", "\\G", "\\K",
                                   "\\A", "\\Z", "\\z", "\\1", "\\k", "\\g", "\\u", "\\Q", "\\C", "\\N"})
    refused(escape, escape + " at byte 0");
  refused("a\\", "a lone \\ at byte 1");
  refused("\\pL", "\\p without braces");
  refused("\\p{L", "\\p without braces");
  refused("\\x{100}", "\\x other than \\x00 to \\x7F");
  refused("\\xE9", "\\x other than \\x00 to \\x7F");
  refused("[]a]", "] at the start of a class");
  refused("[a[b]]", "a class inside a class at byte 2");
  refused("[[:alpha:]]", "a class inside a class at byte 1");
  refused("[a-z&&[^b]]", "&& in a class");
  refused("[ab", "a class without ]");
  refused("(*UCP)a", "(* at byte 0");
  refused("a(?i)b", "(?i at byte 1");
  refused("(?m:.)", "(?m at byte 0");
  refused("(?<name>a)", "(?< at byte 0");
  refused("a{,3}", "{ other than {n,m} at byte 1");
  refused("a{", "{ other than {n,m} at byte 1");
  refused("a{2}+", "}+ at byte 1");
}

TEST(Pattern, WhatIsNoPatternIsAnError) {
  for (const std::string pattern : {"(a", "a)", "*a", "[b-a]", "a{3,2}", "\\p{NoSuchScript}"})
    test::expect_error(ErrorKind::kConfig,
                       "t.json: pattern \"" + pattern + "\" is not a regular expression: ", [&] {
                         Pattern::regex(pattern, "t.json");
                       });
}

// Never silent: a text on which the pattern explodes is refused.
TEST(Pattern, AMatchLimitIsAnError) {
  const Tokenizer tokenizer = [] {
    test::Json json = test::tiny_json();
    json["pre_tokenizer"] = test::split_json("(?:a+)+[bc]");
    return test::parse(json);
  }();
  EXPECT_EQ(tokenizer.encode("aab").size(), 3u);
  test::expect_error(ErrorKind::kRequest,
                     "text: pattern \"(?:a+)+[bc]\" failed at byte 0 of 60: match limit exceeded",
                     [&] { tokenizer.encode(std::string(60, 'a')); });
}

// A group repeated for megabytes outgrows the JIT's stack.
TEST(Pattern, ALongMatchGoesOn) {
  const std::string text(1 << 16, 'a');
  const auto found = matches("(?:a|b)+c|a", text.substr(0, 3000));
  EXPECT_EQ(found.size(), 3000u);
  EXPECT_EQ(matches("(?:(a)|b)+", text).size(), 1u);
}

}  // namespace
}  // namespace nanovllm
