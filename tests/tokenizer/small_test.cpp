// Small hand-made tokenizers, one for each flag and kind, against Hugging Face
// (tools/make_tokenizer_reference.py).
#include <fstream>
#include <nlohmann/json.hpp>

#include "support.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<TokenId>;

std::string stream(const Tokenizer& tokenizer, const Ids& ids, SpecialText special_text) {
  Detokenizer detokenizer(tokenizer, special_text);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

void run_case(const Json& base, const Json& test_case) {
  Json whole = base;
  whole.update(test_case["changes"]);
  whole["model"].update(test_case["model_changes"]);
  const Tokenizer tokenizer = Tokenizer::parse(whole.dump(), "small.json");
  const Origin origin = test_case.value("as_text", false) ? Origin::kMessage : Origin::kTemplate;
  const auto around = test_case.value("template", false) ? TemplateTokens::kAdd : TemplateTokens::kOmit;
  for (const Json& row : test_case["rows"]) {
    const Ids ids = row[1].get<Ids>();
    EXPECT_EQ(tokenizer.encode_prompt(PromptText(row[0].get<std::string>(), origin), around), ids) << row[0];
    for (const auto& [special_text, want] :
         {std::pair(SpecialText::kKeep, row[2]), std::pair(SpecialText::kSkip, row[3])}) {
      EXPECT_EQ(tokenizer.decode(ids, special_text), want) << row[0];
      EXPECT_EQ(stream(tokenizer, ids, special_text), want) << row[0];
    }
  }
}

TEST(SmallTokenizers, AreWhatHuggingFaceDoes) {
  const Json reference = Json::parse(std::ifstream(test::golden("tokenizer") / "small.json"));
  ASSERT_GT(reference["cases"].size(), 80u);
  for (const Json& test_case : reference["cases"]) {
    SCOPED_TRACE(test_case["name"].get<std::string>());
    EXPECT_NO_THROW(run_case(reference["base"], test_case));
  }
}

}  // namespace
}  // namespace nanovllm
