// Numbers as Python has them: integers without an upper limit beside floats, and their printed forms.
//
// An integer beyond int64_t is kept as decimal text, so that data of any length prints as it came. Arithmetic
// is done in 127 bits; a result beyond that is refused, which no template has been seen to need and which
// bounds its cost.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/jinja_value.h"

namespace nanovllm::jinja {

__extension__ typedef __int128 Wide;

// The value of a bool or integer; nothing when it is of another kind or does not fit.
std::optional<Wide> wide_integer(const Value& value);
// The same, but refuses: "where: an integer is beyond 38 digits".
Wide need_wide(const Value& value);
Value from_wide(Wide value);

// "-" or nothing, then decimal digits. Refuses more than 4300 digits, as Python does.
Value integer_from_decimal(std::string_view digits);
std::string integer_text(const Value& integer);

double number_as_double(const Value& number);
// Shortest form that reads back; exponent below 1e-4 and from 1e16 up: Python's repr(float).
std::string float_text(double value);

// Negative, 0 or positive; 2 when one is not a number (NaN): neither less, equal nor greater.
int compare_numbers(const Value& a, const Value& b);

}  // namespace nanovllm::jinja
