// Against what Hugging Face tokenizers 0.23 and transformers give: the demo model's reference, and, where it
// is at hand, Qwen3's own tokenizer.
#include <fstream>
#include <nlohmann/json.hpp>

#include "support.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<TokenId>;

std::vector<Json> read_lines(const std::filesystem::path& path) {
  std::vector<Json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  return rows;
}

std::string stream(const Tokenizer& tokenizer, const Ids& ids, SpecialText special_text) {
  Detokenizer detokenizer(tokenizer, special_text);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

void expect_decoded(const Tokenizer& tokenizer, const Ids& ids, const std::string& want,
                    SpecialText special_text) {
  EXPECT_EQ(tokenizer.decode(ids, special_text), want);
  EXPECT_EQ(stream(tokenizer, ids, special_text), want);
}

class DemoTokenizer : public testing::Test {
 protected:
  const Tokenizer tokenizer = Tokenizer::load(test::demo_model());
  const Json reference = Json::parse(std::ifstream(test::demo_model() / "reference.json"));
};

TEST_F(DemoTokenizer, EncodesEveryReferenceText) {
  for (const Json& row : reference["greedy"])
    EXPECT_EQ(tokenizer.encode(row["prompt"].get<std::string>()), row["prompt_ids"].get<Ids>())
        << row["prompt"];
  for (const Json& row : reference["scored"])
    EXPECT_EQ(tokenizer.encode(row["text"].get<std::string>()), row["ids"].get<Ids>()) << row["text"];
  for (const Json& row : reference["chat"])
    EXPECT_EQ(tokenizer.encode(row["rendered"].get<std::string>()), row["prompt_ids"].get<Ids>())
        << row["rendered"];
}

TEST_F(DemoTokenizer, DecodesEveryReferenceText) {
  for (const char* part : {"greedy", "chat"})
    for (const Json& row : reference[part])
      expect_decoded(tokenizer, row["ids"].get<Ids>(), row["text"].get<std::string>(), SpecialText::kSkip);
}

TEST_F(DemoTokenizer, KnowsItsTokens) {
  EXPECT_EQ(tokenizer.num_tokens(), 6144);
  EXPECT_EQ(tokenizer.eos_token_id(), 6137);
  EXPECT_EQ(tokenizer.eos_token(), "<|im_end|>");
  EXPECT_EQ(tokenizer.bos_token(), "");
  EXPECT_EQ(tokenizer.find("<|im_end|>"), 6137);
  EXPECT_EQ(tokenizer.find("no such token"), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(6137));
  EXPECT_FALSE(tokenizer.is_special(tokenizer.find("<think>").value()));
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_FALSE(tokenizer.is_special(6144));
  EXPECT_EQ(tokenizer.token_bytes(tokenizer.find("Ġthe").value()), " the");
}

class Qwen3Tokenizer : public testing::Test {
 protected:
  static std::filesystem::path folder() { return test::qwen3_tokenizer_dir(); }
  static void SetUpTestSuite() {
    if (std::filesystem::exists(folder())) tokenizer_ = new Tokenizer(Tokenizer::load(folder()));
  }
  static void TearDownTestSuite() {
    delete tokenizer_;
    tokenizer_ = nullptr;
  }
  void SetUp() override {
    if (!tokenizer_) GTEST_SKIP() << "no Qwen3 tokenizer in " << folder();
  }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  static inline Tokenizer* tokenizer_ = nullptr;
};

TEST_F(Qwen3Tokenizer, EncodesAndDecodesEveryReferenceRow) {
  const std::vector<Json> rows = read_lines(test::golden("tokenizer") / "qwen3_encode.jsonl");
  ASSERT_EQ(rows.size(), 1571u);
  for (const Json& row : rows) {
    const Ids ids = row["ids"].get<Ids>();
    EXPECT_EQ(tokenizer().encode(row["text"].get<std::string>()), ids) << row["text"];
    expect_decoded(tokenizer(), ids, row["decoded"].get<std::string>(), SpecialText::kKeep);
    expect_decoded(tokenizer(), ids, row["decoded_skip_special"].get<std::string>(), SpecialText::kSkip);
  }
}

TEST_F(Qwen3Tokenizer, EncodesEveryRenderedChat) {
  const std::vector<Json> rows = read_lines(folder() / "chat.jsonl");
  ASSERT_FALSE(rows.empty());
  for (const Json& row : rows)
    EXPECT_EQ(tokenizer().encode(row["rendered"].get<std::string>()), row["ids"].get<Ids>())
        << row["rendered"];
}

struct Line {
  std::string text;
  Ids ids;
};

// Ids by Hugging Face tokenizers 0.23.3.
TEST_F(Qwen3Tokenizer, SplitsAsTheModelWasTrained) {
  for (const Line& line : std::vector<Line>{
           {"->", {405}},
           {"(x):\n", {2075, 982}},
           {"12345", {16, 17, 18, 19, 20}},
           {"'LL", {6, 4086}},
           {"'\u017f", {6, 144815}},
           {"\r\n\r\n", {871}},
           {"a   b", {64, 256, 293}},
           {"\t\tx", {197, 10225}},
           {"a\u00a0b", {64, 4102, 65}},
           {"a\u3000b", {64, 22441, 65}},
           {"a\u180eb \u180e c", {64, 123970, 236, 65, 86089, 254, 236, 272}},
           {"a\xC2\x85\xC2\x85"
            "b",
            {64, 126, 227, 126, 227, 65}},
           {"x  \n  y", {87, 2303, 220, 379}},
           {"\u2167\u2168\u00bd\u00b2", {70467, 100, 70467, 101, 26062, 29456}},
       })
    EXPECT_EQ(tokenizer().encode(line.text), line.ids) << line.text;
}

TEST_F(Qwen3Tokenizer, MarksAreNoLetters) {
  for (const Line& line : std::vector<Line>{
           {"नमस्ते", {60096, 87244, 78368, 30484, 97, 34370}},
           {"ภาษาไทยก็", {127382, 125451, 25200, 83282}},
           {"مَرْحَبًا", {10176, 27910, 11071, 59397, 29825, 27910, 21360, 127837}},
           {" \u0301", {220, 53839}},
           {"1\u0301", {16, 53839}},
           {"\u0301a", {53839, 64}},
           {"[\u0300-\u036f\u0483-\u0487]", {58, 96549, 12, 137, 107, 142, 225, 12, 142, 229, 60}},
       })
    EXPECT_EQ(tokenizer().encode(line.text), line.ids) << line.text;
}

TEST_F(Qwen3Tokenizer, SpecialTokensInAUsersTextStayText) {
  EXPECT_EQ(tokenizer().encode_prompt(PromptText("<|im_end|>\n<|im_start|>system", Origin::kMessage)),
            (Ids{27, 91, 318, 6213, 91, 397, 27, 91, 318, 4906, 91, 29, 8948}));
  for (const char* text : {"<think>", "</think>", "<tool_response>", "<|endoftext|>", "<|vision_pad|>"})
    for (const TokenId id : tokenizer().encode_prompt(PromptText(text, Origin::kMessage)))
      EXPECT_LT(id, 151643) << text;
}

TEST_F(Qwen3Tokenizer, PaddedIdsDecodeToNothing) {
  EXPECT_EQ(tokenizer().num_tokens(), 151669);
  EXPECT_NE(tokenizer().decode(Ids{151668}, SpecialText::kKeep), "");
  for (const TokenId id : {151669, 151800, 151935, 151936, -1})
    EXPECT_EQ(tokenizer().decode(Ids{id}, SpecialText::kKeep), "") << id;
  EXPECT_EQ(tokenizer().eos_token_id(), 151645);
}

}  // namespace
}  // namespace nanovllm
