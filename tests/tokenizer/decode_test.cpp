// Decoding, whole and token by token.
#include <chrono>
#include <random>

#include "support.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tiny.h"

namespace nanovllm {
namespace {

using test::Ids;
using test::Json;
using test::parse;
using test::tiny_json;

const std::string kReplacement = "\uFFFD";

Ids bytes_of(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));  // the ids of tiny_json
  return ids;
}

struct Streamed {
  std::string text;
  std::vector<std::string> pieces;  // one a push, and the last of finish
};

Streamed stream(const Tokenizer& tokenizer, const Ids& ids, SpecialText special_text = SpecialText::kSkip) {
  Detokenizer detokenizer(tokenizer, special_text);
  Streamed out;
  for (const TokenId id : ids) out.pieces.push_back(detokenizer.push(id));
  out.pieces.push_back(detokenizer.finish());
  for (const std::string& piece : out.pieces) out.text += piece;
  return out;
}

TEST(Decode, UnknownIdsAreEmpty) {
  Json json = tiny_json();
  json["added_tokens"] = {{{"id", 300}, {"content", "<x>"}}};
  const Tokenizer tokenizer = parse(json);
  EXPECT_EQ(tokenizer.num_tokens(), 301);
  for (const TokenId id : {-1, 258, 299, 301, 151936, std::numeric_limits<TokenId>::min(),
                           std::numeric_limits<TokenId>::max()}) {
    EXPECT_EQ(tokenizer.decode(Ids{'a', id, 'b'}, SpecialText::kKeep), "ab") << id;
    EXPECT_EQ(tokenizer.token_bytes(id), "") << id;
    EXPECT_FALSE(tokenizer.is_special(id)) << id;
    EXPECT_EQ(stream(tokenizer, {'a', id, 'b'}).text, "ab") << id;
  }
}

// What Rust's String::from_utf8_lossy and Python's "replace" give.
TEST(Decode, InvalidBytesBecomeReplacementCharacters) {
  const Tokenizer tokenizer = parse(tiny_json());
  EXPECT_EQ(tokenizer.decode(bytes_of("a\x80\xFFz"), SpecialText::kKeep),
            "a" + kReplacement + kReplacement + "z");
  EXPECT_EQ(tokenizer.decode(bytes_of("\xF0\x9F\x98"), SpecialText::kKeep), kReplacement);
  EXPECT_EQ(tokenizer.decode(bytes_of("\xE4\xBD"
                                      "a"),
                             SpecialText::kKeep),
            kReplacement + "a");
}

TEST(Decode, SkipsSpecialTokensOnlyWhenAsked) {
  Json json = tiny_json();
  json["added_tokens"] = {{{"id", 258}, {"content", "<s>"}, {"special", true}},
                          {{"id", 259}, {"content", "<t>"}, {"special", false}}};
  const Tokenizer tokenizer = parse(json);
  const Ids ids = {'a', 258, 259, 'b', 258};
  EXPECT_EQ(tokenizer.decode(ids, SpecialText::kSkip), "a<t>b");
  EXPECT_EQ(tokenizer.decode(ids, SpecialText::kKeep), "a<s><t>b<s>");
  EXPECT_EQ(stream(tokenizer, ids, SpecialText::kSkip).text, "a<t>b");
  EXPECT_EQ(stream(tokenizer, ids, SpecialText::kKeep).text, "a<s><t>b<s>");
  // A skipped token does not part the bytes around it.
  EXPECT_EQ(tokenizer.decode(Ids{0xC3, 258, 0xA9}, SpecialText::kSkip), "\u00e9");
  EXPECT_EQ(stream(tokenizer, {0xC3, 258, 0xA9}, SpecialText::kSkip).text, "\u00e9");
  EXPECT_EQ(stream(tokenizer, {0xC3, 258, 0xA9}, SpecialText::kKeep).text,
            kReplacement + "<s>" + kReplacement);
}

TEST(Detokenizer, EveryCharacterWaitsForItsLastByte) {
  const Tokenizer tokenizer = parse(tiny_json());
  const std::string text = "ďábelské 👩‍👩‍👧‍👦 𠮷 你好";
  const Ids ids = bytes_of(text);
  const Streamed streamed = stream(tokenizer, ids);
  EXPECT_EQ(streamed.text, text);
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool character_ends = i + 1 == text.size() || (text[i + 1] & 0xC0) != 0x80;
    EXPECT_EQ(streamed.pieces[i].empty(), !character_ends) << i;
  }
  EXPECT_EQ(streamed.pieces.back(), "");
}

// Random bytes, cut into tokens of 1 to 5 bytes in every way the chance gives.
TEST(Detokenizer, PiecesJoinToTheWholeForEveryList) {
  std::mt19937 random(3);
  const std::vector<std::string> parts = {"a",        "\u00e9",   "\u4f60",       "\U0001F600", "\x80",
                                          "\xC3",     "\xE4\xBD", "\xF0\x9F\x98", "\xF0\x9F",   "\xED\xA0",
                                          "\xF4\x90", "\xE0\x80", "\xFF",         "\xC0\xAF",   kReplacement};
  for (int round = 0; round < 300; ++round) {
    Json json = tiny_json();
    json["model"]["ignore_merges"] = true;
    Ids ids;
    std::string bytes;
    for (int i = 0; i < 30; ++i) bytes += parts[random() % parts.size()];
    for (size_t i = 0; i < bytes.size();) {
      const std::string piece = bytes.substr(i, 1 + random() % 5);
      Json& vocab = json["model"]["vocab"];
      const std::string spelled = spell_bytes(piece);
      if (!vocab.contains(spelled)) vocab[spelled] = vocab.size();
      ids.push_back(vocab[spelled].get<TokenId>());
      i += piece.size();
    }
    const Tokenizer tokenizer = parse(json);
    const std::string whole = tokenizer.decode(ids, SpecialText::kKeep);
    const Streamed streamed = stream(tokenizer, ids, SpecialText::kKeep);
    ASSERT_EQ(streamed.text, whole) << round;
    // Held back: at most 3 bytes, and never what is already certain.
    size_t pushed = 0, shown = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      pushed += tokenizer.token_bytes(ids[i]).size();
      shown += streamed.pieces[i].size();
      const std::string_view so_far = std::string_view(bytes).substr(0, pushed);
      std::string certain = tokenizer.decode(std::span(ids).first(i + 1), SpecialText::kKeep);
      if (certain.size() > shown) {
        EXPECT_EQ(certain.size() - shown, kReplacement.size())
            << round;  // an incomplete character, shown as one
        EXPECT_EQ(certain.substr(shown), kReplacement) << round;
      }
      EXPECT_FALSE(so_far.empty());
    }
  }
}

TEST(Detokenizer, StrayBytesComeOutAtOnceAndInLinearTime) {
  const Tokenizer tokenizer = parse(tiny_json());
  const auto start = std::chrono::steady_clock::now();
  for (const Ids& token : {Ids{0x80}, bytes_of(kReplacement)}) {
    Detokenizer detokenizer(tokenizer, SpecialText::kSkip);
    for (int i = 0; i < 5000; ++i) {
      std::string piece;
      for (const TokenId id : token) piece += detokenizer.push(id);
      ASSERT_EQ(piece, kReplacement);
    }
    EXPECT_EQ(detokenizer.finish(), "");
  }
  Detokenizer detokenizer(tokenizer, SpecialText::kSkip);
  for (int i = 0; i < 1000000; ++i) detokenizer.push(0x80);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 20);
}

TEST(Detokenizer, AnIncompleteEndIsOneReplacementAndThenNothing) {
  const Tokenizer tokenizer = parse(tiny_json());
  Detokenizer detokenizer(tokenizer, SpecialText::kSkip);
  for (const TokenId id : bytes_of("\xF0\x9F\x98")) EXPECT_EQ(detokenizer.push(id), "");
  EXPECT_EQ(detokenizer.finish(), kReplacement);
  EXPECT_EQ(detokenizer.finish(), "");
  EXPECT_EQ(detokenizer.push('a'), "a");
}

}  // namespace
}  // namespace nanovllm
