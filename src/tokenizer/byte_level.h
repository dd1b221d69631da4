// The byte-level alphabet of GPT-2: one visible Unicode symbol for each of the 256 bytes, so that a
// vocabulary of byte strings can be written as text (Radford et al. 2019, sec. 2.2; bytes_to_unicode in its
// encoder.py).
//
// A printable Latin-1 byte stands for itself; the other 68, in order, are U+0100, U+0101 ...: space is U+0120
// "Ġ".
#pragma once

#include <string>
#include <string_view>

namespace nanovllm {

// The UTF-8 spelling of a byte, one character.
std::string_view byte_symbol(unsigned char byte);

std::string spell_bytes(std::string_view bytes);

// Appends what a spelled token stands for. Text with any character outside the alphabet stands for itself, as
// in Hugging Face's ByteLevel decoder (added tokens may hold spaces). text is valid UTF-8.
void append_unspelled(std::string_view text, std::string& bytes);

}  // namespace nanovllm
