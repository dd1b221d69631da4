// Encoding: words of any length, invalid text, added tokens as text, threads.
#include <chrono>
#include <random>
#include <thread>

#include "support.h"
#include "tokenizer/tiny.h"

namespace nanovllm {
namespace {

using test::Ids;
using test::Json;
using test::parse;
using test::tiny_json;
using Merges = std::vector<std::pair<std::string, std::string>>;

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The definition: again and again the pair of lowest rank, the leftmost of them.
std::vector<std::string> merge_by_definition(const Merges& merges, const std::string& word) {
  std::vector<std::string> pieces;
  for (const char c : word) pieces.emplace_back(1, c);
  while (true) {
    size_t best = pieces.size(), best_rank = merges.size();
    for (size_t i = 0; i + 1 < pieces.size(); ++i)
      for (size_t rank = 0; rank < best_rank; ++rank)
        if (merges[rank] == std::pair(pieces[i], pieces[i + 1])) best = i, best_rank = rank;
    if (best == pieces.size()) return pieces;
    pieces[best] += pieces[best + 1];
    pieces.erase(pieces.begin() + std::ptrdiff_t(best) + 1);
  }
}

// 25 merges of a, b and c, each of what is there before it.
Merges random_merges(std::mt19937& random) {
  std::vector<std::string> pieces = {"a", "b", "c"};
  Merges merges;
  while (merges.size() < 25) {
    const std::pair merge(pieces[random() % pieces.size()], pieces[random() % pieces.size()]);
    if (std::find(merges.begin(), merges.end(), merge) != merges.end()) continue;
    if (merge.first.size() + merge.second.size() > 9) continue;
    merges.push_back(merge);
    pieces.push_back(merge.first + merge.second);
  }
  return merges;
}

TEST(Bpe, MergesAsDefined) {
  std::mt19937 random(11);
  const auto below = [&](size_t n) { return size_t(random() % n); };
  for (int round = 0; round < 60; ++round) {
    const Merges merges = random_merges(random);
    const Tokenizer tokenizer = parse(tiny_json(merges));
    for (int i = 0; i < 60; ++i) {
      std::string word;
      for (size_t size = 1 + below(40); word.size() < size;) word += "abc"[below(3)];
      Ids want;
      for (const std::string& piece : merge_by_definition(merges, word))
        want.push_back(tokenizer.find(piece).value());
      EXPECT_EQ(tokenizer.encode(word), want) << word;
    }
  }
}

// One word without a cut. Quadratic work would take minutes.
TEST(Bpe, ALongWordIsNotQuadratic) {
  const Tokenizer tokenizer = parse(tiny_json({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}));
  const std::string word(1 << 21, 'a');
  Ids ids;
  EXPECT_LT(seconds([&] { ids = tokenizer.encode(word); }), 20);
  EXPECT_EQ(ids, Ids(word.size() / 8, 258));
}

TEST(Normalizer, ALongRunOfMarksIsNotQuadratic) {
  Json json = tiny_json();
  json["normalizer"] = {{"type", "NFC"}};
  const Tokenizer tokenizer = parse(json);
  std::string mixed = "a", above = "a", below = "a";
  for (int i = 0; i < 200000; ++i) mixed += "\u0301\u0316", above += "\u0301", below += "\u0316";
  Ids ids;
  EXPECT_LT(seconds([&] { ids = tokenizer.encode(mixed); }), 20);
  // Marks below come first; the first mark above has nothing of its class before it and composes with the
  // letter.
  const std::string text = tokenizer.decode(ids, SpecialText::kKeep);
  EXPECT_EQ(text, "\u00e1" + below.substr(1) + above.substr(3));
}

// A long word is merged rank by rank. An x merges with nothing, so the parts between come out as they do alone; also
// where ranks are in no order that training gives, and a merge makes a lower one possible.
TEST(Bpe, LongWordsMergeAsShortOnes) {
  std::mt19937 random(12);
  const auto below = [&](size_t n) { return size_t(random() % n); };
  for (int round = 0; round < 60; ++round) {
    Merges merges = random_merges(random);
    if (round > 10) std::shuffle(merges.begin(), merges.end(), random);
    const Tokenizer tokenizer = parse(tiny_json(merges));
    std::string word;
    Ids want;
    while (word.size() < 10000) {
      std::string part;
      for (size_t size = below(60); part.size() < size;) part += "abc"[below(3)];
      const Ids alone = tokenizer.encode(part);
      want.insert(want.end(), alone.begin(), alone.end());
      want.push_back('x');
      word += part + "x";
    }
    EXPECT_EQ(tokenizer.encode(word), want) << round;
  }
}

// Words seen before take their ids from the text so far; more words than are remembered push each other out.
TEST(Encode, WordsSeenBeforeHaveTheSameIds) {
  const Tokenizer tokenizer = Tokenizer::load(test::demo_model());
  std::mt19937 random(9);
  std::vector<std::string> words;
  std::vector<Ids> alone;
  for (int i = 0; i < 9000; ++i) {
    std::string word = " ";
    for (size_t length = 1 + random() % 40; word.size() < length + 1;) word += char('a' + random() % 26);
    alone.push_back(tokenizer.encode(word));
    words.push_back(word);
  }
  std::string text;
  Ids want;
  for (int i = 0; i < 40000; ++i) {
    const size_t k = std::min<size_t>(random() % 9000, random() % 9000);
    text += words[k];
    want.insert(want.end(), alone[k].begin(), alone[k].end());
  }
  EXPECT_EQ(tokenizer.encode(text), want);
}

TEST(Encode, InvalidUtf8IsTheRequestsFault) {
  const Tokenizer tokenizer = parse(tiny_json());
  test::expect_error(ErrorKind::kRequest, "text: byte 3 of 5 is not valid UTF-8",
                     [&] { tokenizer.encode("h\u00e9\xFFy"); });
  test::expect_error(ErrorKind::kRequest, "text: byte 1 of 3 is not valid UTF-8",
                     [&] { tokenizer.encode("a\xE4\xBD"); });
  test::expect_error(ErrorKind::kRequest, "text: byte 0 of 3 is not valid UTF-8",
                     [&] { tokenizer.encode("\xED\xA0\x80"); });
}

TEST(Encode, EmptyTextAndNulAreText) {
  const Tokenizer tokenizer = parse(tiny_json());
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.encode(std::string_view("a\0b", 3)), (Ids{'a', 0, 'b'}));
}

// A user's text cannot forge a turn.
TEST(Encode, SpecialTokensAsTextNeverComeOut) {
  Json json = tiny_json();
  json["added_tokens"] = {{{"id", 258}, {"content", "<|im_end|>"}, {"special", true}},
                          {{"id", 259}, {"content", "<think>"}, {"special", false}, {"normalized", false}},
                          {{"id", 256}, {"content", "he"}, {"special", true}}};
  const Tokenizer tokenizer = parse(json);
  EXPECT_EQ(tokenizer.encode("a<|im_end|>"), (Ids{'a', 258}));
  EXPECT_EQ(tokenizer.encode_prompt(PromptText("a<|im_end|>", Origin::kMessage)),
            (Ids{'a', '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'}));
  EXPECT_EQ(tokenizer.encode_prompt(PromptText("<think>", Origin::kMessage)),
            (Ids{'<', 't', 'h', 'i', 'n', 'k', '>'}));
  json["model"]["ignore_merges"] = true;
  json["model"]["vocab"]["<|im_end|>"] = 258;
  for (const TokenId id : parse(json).encode_prompt(PromptText("<|im_end|>", Origin::kMessage)))
    EXPECT_LT(id, 256);
}

TEST(Encode, ThreadsShareATokenizer) {
  const Tokenizer tokenizer = Tokenizer::load(test::demo_model());
  const std::string text = "Once upon a time, 123 e\u0301 <|im_end|> \u4f60\u597d\n\n  end";
  const Ids want = tokenizer.encode(text);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) EXPECT_EQ(tokenizer.encode(text), want);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Encode, TwoTokenizersDoNotMeet) {
  const Tokenizer one = parse(tiny_json({{"a", "b"}})), two = parse(tiny_json({{"b", "a"}}));
  EXPECT_EQ(one.encode("aba"), (Ids{256, 'a'}));
  EXPECT_EQ(two.encode("aba"), (Ids{'a', 256}));
}

}  // namespace
}  // namespace nanovllm
