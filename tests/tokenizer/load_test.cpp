// What a tokenizer.json may hold, and what is refused and how.
#include <limits>

#include "support.h"
#include "tokenizer/tiny.h"

namespace nanovllm {
namespace {

using test::Ids;
using test::Json;
using test::parse;
using test::tiny_json;

void expect_refused(ErrorKind kind, std::string_view part, const Json& json) {
  test::expect_error(kind, part, [&] { parse(json); });
}

TEST(TokenizerMerges, BothFormsGiveTheSameIds) {
  Json pairs = tiny_json({{"Ġ", "w"}, {"l", "l"}, {"Ġw", "ll"}}), strings = pairs;
  strings["model"]["merges"] = {"Ġ w", "l l", "Ġw ll"};
  for (const std::string text : {" wll wl llw", "w  ll", "é"})
    EXPECT_EQ(parse(pairs).encode(text), parse(strings).encode(text)) << text;
  EXPECT_EQ(parse(strings).encode(" wll"), (Ids{258}));
}

TEST(TokenizerMerges, EmptyShortAndUnknownMergesAreErrors) {
  Json json = tiny_json({{"h", "e"}, {"l", "l"}});
  json["model"]["merges"] = Json::array();
  expect_refused(ErrorKind::kConfig, "tiny.json: model.merges is empty, want the merges of a BPE model",
                 json);
  json["model"]["merges"] = {"h e"};
  expect_refused(ErrorKind::kConfig,
                 "tiny.json: no merge of the 1 in model.merges builds token 257 \"ll\", want the whole list",
                 json);
  json["model"]["merges"] = {"h e", "l l", "he y"};
  expect_refused(ErrorKind::kConfig, "model.merges[2] needs \"hey\", which is not in model.vocab", json);
  json["model"]["merges"] = {"h e", "l l", "xy y"};
  expect_refused(ErrorKind::kConfig, "model.merges[2] needs \"xy\", which is not in model.vocab", json);
  json["model"].erase("merges");
  expect_refused(ErrorKind::kConfig, "tiny.json: model: no \"merges\"", json);
}

TEST(TokenizerMerges, AMergeIsTwoPieces) {
  Json json = tiny_json();
  json["model"]["merges"] = {"h e", "ll"};
  expect_refused(ErrorKind::kConfig, "model.merges[1]: is \"ll\", want two pieces with a space between",
                 json);
  json["model"]["merges"] = {"h e", "l l l"};
  expect_refused(ErrorKind::kConfig, "model.merges[1]: is \"l l l\", want two pieces", json);
  json["model"]["merges"] = {{"h", "e"}, {"l"}};
  expect_refused(ErrorKind::kConfig, "model.merges[1]: has 1 pieces, want 2", json);
  json["model"]["merges"] = Json::array({7});
  expect_refused(ErrorKind::kConfig, "model.merges[0]: want an array", json);
}

TEST(TokenizerMerges, IgnoreMergesNeedsNoWholeList) {
  Json json = tiny_json();
  json["model"]["merges"] = {"h e"};
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(parse(json).encode("ll"), (Ids{257}));
}

TEST(TokenizerVocabulary, EveryByteOfUtf8MustBeThere) {
  Json json = tiny_json();
  json["model"]["vocab"].erase("a");
  expect_refused(ErrorKind::kConfig, "model.vocab has no \"a\" (byte 97), want every byte of UTF-8", json);
  json = tiny_json();
  json["model"]["vocab"].erase(std::string(byte_symbol(0xFF)));  // no UTF-8 holds this byte
  EXPECT_EQ(parse(json).encode("a"), (Ids{'a'}));
}

TEST(TokenizerVocabulary, IdsAndTextsAreUnique) {
  Json json = tiny_json();
  json["model"]["vocab"]["b"] = 'a';
  expect_refused(ErrorKind::kConfig, "id 97 is both \"a\" and \"b\"", json);
  json = tiny_json();
  json["added_tokens"] = {{{"id", 300}, {"content", "he"}}};
  expect_refused(ErrorKind::kConfig, "token \"he\" has the ids 256 and 300", json);
  json["added_tokens"] = {{{"id", 256}, {"content", "<x>"}}};
  expect_refused(ErrorKind::kConfig, "id 256 is both \"he\" and \"<x>\"", json);
}

TEST(TokenizerVocabulary, IdsAreSane) {
  Json json = tiny_json();
  json["added_tokens"] = {{{"id", (1 << 22) + 1}, {"content", "<x>"}}};
  expect_refused(ErrorKind::kConfig, "token \"<x>\" has id 4194305, want 0 to 4194304", json);
  json["added_tokens"][0]["id"] = -1;
  expect_refused(ErrorKind::kConfig, "added_tokens[0].id: is -1, want a token id", json);
  json["added_tokens"][0]["id"] = int64_t{1} << 40;
  expect_refused(ErrorKind::kConfig, "added_tokens[0].id: is 1099511627776, want a token id", json);
  json["added_tokens"][0]["id"] = "7";
  expect_refused(ErrorKind::kConfig, "added_tokens[0].id: want an integer", json);
  json = tiny_json();
  json["model"]["vocab"]["a"] = 1.5;
  expect_refused(ErrorKind::kConfig, "model.vocab[\"a\"]: want an integer", json);
}

TEST(TokenizerJsonFile, IsJson) {
  test::expect_error(ErrorKind::kConfig,
                     "x.json: is not JSON: ", [] { Tokenizer::parse("{\"model\": ", "x.json"); });
  test::expect_error(ErrorKind::kConfig, "x.json: is not JSON: ", [] { Tokenizer::parse("", "x.json"); });
  test::expect_error(ErrorKind::kConfig, "x.json: want an object", [] { Tokenizer::parse("[]", "x.json"); });
  test::expect_error(ErrorKind::kConfig, "x.json: no \"model\"", [] { Tokenizer::parse("{}", "x.json"); });
}

TEST(TokenizerJsonFile, OtherModelsAreRefused) {
  const auto with = [](const std::string& key, const Json& value) {
    Json json = tiny_json();
    json["model"][key] = value;
    return json;
  };
  expect_refused(ErrorKind::kUnsupported, "model.type: \"Unigram\" is not supported, only BPE",
                 with("type", "Unigram"));
  expect_refused(ErrorKind::kConfig, "model.type: want a string", with("type", nullptr));
  expect_refused(ErrorKind::kUnsupported, "model: dropout is not supported, want null", with("dropout", 0.1));
  expect_refused(ErrorKind::kConfig, "model.dropout: want a number", with("dropout", "x"));
  expect_refused(ErrorKind::kUnsupported, "model: byte_fallback is not supported",
                 with("byte_fallback", true));
  expect_refused(ErrorKind::kConfig, "model.ignore_merges: want true or false", with("ignore_merges", 1));
  expect_refused(ErrorKind::kUnsupported, "model: end_of_word_suffix is not supported",
                 with("end_of_word_suffix", "</w>"));
  expect_refused(ErrorKind::kUnsupported, "model: continuing_subword_prefix is not supported",
                 with("continuing_subword_prefix", "##"));
  EXPECT_NO_THROW(parse(with("continuing_subword_prefix", "")));
  EXPECT_NO_THROW(parse(with("dropout", 0.0)));
  EXPECT_NO_THROW(parse(with("unk_token", "<unk>")));
}

TEST(TokenizerJsonFile, OtherPartsAreRefused) {
  const auto with = [](const std::string& key, const Json& value) {
    Json json = tiny_json();
    json[key] = value;
    return json;
  };
  const Json split = test::split_json("x")["pretokenizers"][0], byte_level = {{"type", "ByteLevel"}};
  const auto sequence = [](std::vector<Json> steps) -> Json {
    return {{"type", "Sequence"}, {"pretokenizers", steps}};
  };
  const auto split_with = [&](const std::string& key, const Json& value) {
    Json changed = split;
    changed[key] = value;
    return sequence({changed, byte_level});
  };
  struct Row {
    ErrorKind kind;
    std::string part, key;
    Json value;
  };
  for (const auto& [kind, part, key, value] : std::vector<Row>{
           {ErrorKind::kUnsupported,
            "normalizer: \"Lowercase\" is not supported, only NFC, NFKC",
            "normalizer",
            {{"type", "Lowercase"}}},
           {ErrorKind::kUnsupported,
            "normalizer.normalizers[1]: \"Strip\" is not supported",
            "normalizer",
            {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Strip"}}}}}},
           {ErrorKind::kUnsupported,
            "pre_tokenizer: \"Metaspace\" is not supported, only Split",
            "pre_tokenizer",
            {{"type", "Metaspace"}}},
           {ErrorKind::kUnsupported, "pre_tokenizer: no ByteLevel at its end", "pre_tokenizer", nullptr},
           {ErrorKind::kUnsupported, "pre_tokenizer: no ByteLevel at its end", "pre_tokenizer", split},
           {ErrorKind::kUnsupported,
            "pre_tokenizer.pretokenizers[1]: Split after ByteLevel is not supported, want ByteLevel last",
            "pre_tokenizer", sequence({byte_level, split})},
           {ErrorKind::kUnsupported, "pre_tokenizer.pretokenizers[1]: ByteLevel after ByteLevel",
            "pre_tokenizer", sequence({byte_level, byte_level})},
           {ErrorKind::kUnsupported,
            "pre_tokenizer.pretokenizers[0].behavior: \"Dropped\" is not supported, only Isolated",
            "pre_tokenizer", split_with("behavior", "Dropped")},
           {ErrorKind::kConfig, "pre_tokenizer.pretokenizers[0].pattern: want \"Regex\" or \"String\"",
            "pre_tokenizer", split_with("pattern", Json::object())},
           {ErrorKind::kConfig,
            "pre_tokenizer.pretokenizers[0].pattern: pattern is empty, want the text to split at",
            "pre_tokenizer", split_with("pattern", {{"String", ""}})},
           {ErrorKind::kUnsupported,
            "post_processor: \"BertProcessing\" is not supported, only ByteLevel",
            "post_processor",
            {{"type", "BertProcessing"}}},
           {ErrorKind::kUnsupported, "decoder: is not ByteLevel", "decoder", {{"type", "Metaspace"}}},
           {ErrorKind::kUnsupported, "decoder: is not ByteLevel", "decoder", nullptr},
           {ErrorKind::kConfig,
            "added_tokens[0]: content is empty, want the token's text",
            "added_tokens",
            {{{"id", 300}, {"content", ""}}}},
       })
    expect_refused(kind, "tiny.json: " + part, with(key, value));
}

TEST(TokenizerJsonFile, OtherTemplatesAreRefused) {
  const Json text = {{"Sequence", {{"id", "A"}}}}, bos = {{"SpecialToken", {{"id", "<s>"}}}};
  const auto with_template = [](std::vector<Json> single, TokenId id) {
    Json json = tiny_json();
    json["post_processor"] = {
        {"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", {{"<s>", {{"ids", {id}}}}}}};
    return json;
  };
  EXPECT_EQ(parse(with_template({bos, text}, 'b')).encode("a", TemplateTokens::kAdd), (Ids{'b', 'a'}));
  expect_refused(ErrorKind::kUnsupported, "post_processor.single[1]: the text twice is not supported",
                 with_template({text, text}, 'b'));
  expect_refused(ErrorKind::kUnsupported, "post_processor: a template without the text is not supported",
                 with_template({bos}, 'b'));
  expect_refused(ErrorKind::kConfig, "post_processor: id 999 is not in the vocabulary",
                 with_template({bos, text}, 999));
  Json twice = with_template({bos, text}, 'b');
  twice["post_processor"] = {{"type", "Sequence"},
                             {"processors", {twice["post_processor"], twice["post_processor"]}}};
  expect_refused(ErrorKind::kUnsupported,
                 "post_processor.processors[1]: a second TemplateProcessing is not supported", twice);
}

TEST(TokenizerConfigFile, GivesTheTokensOfTheTemplate) {
  const test::ScratchFolder folder;
  folder.write("tokenizer.json", tiny_json().dump());
  const auto load = [&](const std::string& config) {
    folder.write("tokenizer_config.json", config);
    return Tokenizer::load(folder.path());
  };
  EXPECT_EQ(Tokenizer::load(folder.path()).eos_token_id(), std::nullopt);  // no such file
  EXPECT_EQ(load("{}").eos_token_id(), std::nullopt);
  EXPECT_EQ(load(R"({"eos_token": null})").eos_token_id(), std::nullopt);
  EXPECT_EQ(load(R"({"eos_token": "he"})").eos_token_id(), 256);
  EXPECT_EQ(load(R"({"eos_token": {"content": "ll"}, "bos_token": "<s>"})").eos_token_id(), 257);
  EXPECT_EQ(load(R"({"eos_token": {"content": "ll"}, "bos_token": "<s>"})").eos_token(), "ll");
  EXPECT_EQ(load(R"({"eos_token": {"content": "ll"}, "bos_token": "<s>"})").bos_token(), "<s>");
  test::expect_error(ErrorKind::kConfig, "tokenizer_config.json: eos_token \"</s>\" is not a token of ",
                     [&] { load(R"({"eos_token": "</s>"})"); });
  test::expect_error(ErrorKind::kConfig, "tokenizer_config.json: eos_token: want a string",
                     [&] { load(R"({"eos_token": 7})"); });
  test::expect_error(ErrorKind::kConfig, "tokenizer_config.json: is not JSON", [&] { load("{"); });
}

TEST(TokenizerConfigFile, AFolderWithoutTokenizerIsAnError) {
  const test::ScratchFolder folder;
  test::expect_error(ErrorKind::kDevice, "tokenizer.json: cannot open",
                     [&] { Tokenizer::load(folder.path()); });
}

}  // namespace
}  // namespace nanovllm
