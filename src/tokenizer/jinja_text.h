// Text as Python's str treats it: by code points, with Unicode's white space, case and printability
// (utf8proc's tables). Bytes that are not UTF-8 count as one character each part, and stay as they are.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/prompt_text.h"

namespace nanovllm::jinja {

size_t count_characters(std::string_view text);
std::vector<std::string_view> characters(std::string_view text);

bool is_space(char32_t c);
bool is_letter(char32_t c);
bool is_number_character(char32_t c);  // any of Unicode's N categories
bool is_printable(char32_t c);

// Whether every character is white space; true of the empty text.
bool is_blank(std::string_view text);

enum class Ends { kBoth, kLeft, kRight };
// Without `any_of` white space goes, else the characters that it holds.
std::string_view strip(std::string_view text, Ends ends = Ends::kBoth,
                       std::optional<std::string_view> any_of = std::nullopt);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title_character(std::string_view character);  // of one character: Dz, not DZ
std::string capitalize(std::string_view text);
std::string title_words(std::string_view text);  // a word begins after any non-letter

PromptText escape_html(const PromptText& text);

}  // namespace nanovllm::jinja
