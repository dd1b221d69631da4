#include "base/unicode.h"

#include "support.h"

namespace nanovllm {
namespace {

TEST(Unicode, EncodesAndDecodesEveryCodePoint) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Head head = utf8_head(text);
    ASSERT_EQ(head.kind, Utf8Head::kCharacter);
    ASSERT_EQ(head.length, int(text.size()));
    ASSERT_EQ(head.code_point, c);
    for (size_t cut = 1; cut < text.size(); ++cut)
      ASSERT_EQ(utf8_head(text.substr(0, cut)).kind, Utf8Head::kIncomplete);
  }
}

TEST(Unicode, RefusesWhatTheStandardRefuses) {
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x28\xA1"})
    EXPECT_EQ(utf8_head(bad).kind, Utf8Head::kInvalid) << bad;
}

TEST(Unicode, FindsTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("a\xC3\xA9z"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("a\xC3\xA9\xFFz"), 3u);
  EXPECT_EQ(find_invalid_utf8("ab\xE4\xBD"), 2u);  // cut at the end
}

// What Python 3.11 prints for b"...".decode("utf-8", "replace").
TEST(Unicode, ReplacesInvalidPartsAsPythonDoes) {
  EXPECT_EQ(replace_invalid_utf8("\xFF\xC3\xA9"), "\xEF\xBF\xBD\xC3\xA9");
  EXPECT_EQ(replace_invalid_utf8("\xE4\xBD"), "\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98"
                                 "a"),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace nanovllm
