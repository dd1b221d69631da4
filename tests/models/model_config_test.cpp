#include "models/model_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "models/families.h"
#include "models/tiny_model.h"

namespace nanovllm {
namespace {

using Json = nlohmann::json;

// The tiny config with these fields set.
Json changed(const Json& changes) {
  Json config = Json::parse(test::kTinyConfig);
  config.update(changes);
  return config;
}
Json without(const std::string& key) {
  Json config = Json::parse(test::kTinyConfig);
  config.erase(key);
  return config;
}

ModelConfig parse(const Json& json) { return parse_model_config(json.dump(), "config.json"); }

void expect_refused(const Json& json, const std::string& text, ErrorKind kind = ErrorKind::kConfig) {
  test::expect_error(kind, "config.json: " + text, [&] { parse(json); });
}
void expect_unsupported(const Json& json, const std::string& text) {
  expect_refused(json, text, ErrorKind::kUnsupported);
}

// What parsing writes to stderr.
std::string stderr_of(const Json& json) {
  testing::internal::CaptureStderr();
  parse(json);
  return testing::internal::GetCapturedStderr();
}

TEST(ModelConfig, ReadsEveryField) {
  const ModelConfig c = parse(changed({{"eos_token_id", {5, 6}}}));
  EXPECT_EQ(c.architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(c.vocab_size, 21);
  EXPECT_EQ(c.hidden_size, 8);
  EXPECT_EQ(c.intermediate_size, 12);
  EXPECT_EQ(c.num_layers, 2);
  EXPECT_EQ(c.num_heads, 4);
  EXPECT_EQ(c.num_kv_heads, 2);
  EXPECT_EQ(c.head_dim, 4);
  EXPECT_EQ(c.max_position_embeddings, 64);
  EXPECT_EQ(c.rms_norm_eps, 1e-6f);
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_TRUE(c.qk_norm);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_FALSE(c.o_bias);
  EXPECT_EQ(c.eos_token_ids, (std::vector<TokenId>{5, 6}));
}

TEST(ModelConfig, BothStylesOfTransformersSayTheSame) {
  for (const char* model : {"qwen3-tied-bf16", "qwen3-untied-f32", "qwen3-head128-gqa8-bf16"}) {
    ModelConfig styles[2];
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i)
      styles[i] = parse_model_config(
          read_file(test::golden(model) / (i ? "config.transformers4.json" : "config.json")), "config.json");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    const auto& [a, b] = styles;
    EXPECT_EQ(a.rope.theta, 1e6);
    EXPECT_EQ(a.rope.theta, b.rope.theta);
    EXPECT_EQ(a.head_dim, std::string(model).find("128") != std::string::npos ? 128 : 32);
    EXPECT_EQ(a.head_dim, b.head_dim);
    EXPECT_EQ(a.tie_word_embeddings, std::string(model).find("untied") == std::string::npos);
    EXPECT_EQ(a.tie_word_embeddings, b.tie_word_embeddings);
    EXPECT_EQ(a.eos_token_ids, (std::vector<TokenId>{1}));
    EXPECT_EQ(a.num_layers, b.num_layers);
  }
}

TEST(ModelConfig, RopeThetaInTheOldFormAndTheNew) {
  const Json nested{{"rope_theta", 5e5}, {"rope_type", "default"}};
  Json old_form = changed({{"rope_theta", 5e5}});
  Json new_form = without("rope_theta");
  new_form["rope_parameters"] = nested;
  Json both = changed({{"rope_theta", 5e5}, {"rope_parameters", nested}, {"rope_scaling", nullptr}});
  for (const Json& form : {old_form, new_form, both}) {
    EXPECT_EQ(parse(form).rope.theta, 5e5);
    EXPECT_EQ(stderr_of(form), "");
  }
  expect_refused(changed({{"rope_theta", 10000}, {"rope_parameters", nested}}),
                 "rope_theta is 10000 and 500000 in rope_parameters, want one value");
  Json in_two_places = without("rope_theta");
  in_two_places["rope_parameters"] = nested;
  in_two_places["rope_scaling"] = {{"rope_theta", 7}};
  expect_refused(in_two_places, "rope_theta is 500000 and 7 in rope_scaling, want one value");
}

TEST(ModelConfig, WithoutRopeThetaTheFamilysIsTakenAndSaid) {
  for (const Json& rope : {Json(nullptr), Json::object(), Json{{"rope_type", "default"}}}) {
    Json config = without("rope_theta");
    config["rope_parameters"] = rope;
    EXPECT_EQ(stderr_of(config),
              "nanovllm: warning: config.json: has no rope_theta, taking the family's 1e+06\n");
    testing::internal::CaptureStderr();
    EXPECT_EQ(parse(config).rope.theta, 1e6);
    testing::internal::GetCapturedStderr();
  }
}

TEST(ModelConfig, ARopeThetaThatIsNoneIsRefused) {
  expect_refused(changed({{"rope_theta", 0}}), "rope_theta is 0, want a positive number");
  expect_refused(changed({{"rope_theta", -1}}), "rope_theta is -1, want a positive number");
  expect_refused(changed({{"rope_theta", "1e6"}}), R"(rope_theta is "1e6", want a number)");
  expect_refused(changed({{"rope_parameters", 5}}), "rope_parameters is 5, want an object");
  expect_refused(changed({{"rope_parameters", {{"rope_type", 5}}}}),
                 "rope_parameters: rope_type is 5, want a string");
}

TEST(ModelConfig, WhatWouldChangeTheResultIsRefusedByName) {
  expect_unsupported(changed({{"hidden_act", "gelu"}}), "hidden_act is gelu, want silu");
  for (const char* method : {"awq", "gptq", "fp8", "bitsandbytes", "compressed-tensors"})
    expect_unsupported(changed({{"quantization_config", {{"quant_method", method}}}}),
                       std::string("the weights are quantized (quant_method ") + method +
                           "), want plain f32, f16 or bf16 weights: take the folder that it was made from");
  expect_unsupported(changed({{"quantization_config", Json::object()}}),
                     "the weights are quantized (quant_method not named)");
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "logits_scaling"})
    expect_unsupported(changed({{key, 2}}), key + std::string(" other than 1 is not implemented"));
  for (const char* key : {"rope_interleaved", "use_mrope", "use_qk_norm", "use_bidirectional_attention"})
    expect_unsupported(changed({{key, true}}), key + std::string(" is true, want false"));
  for (const char* key :
       {"attention_multiplier", "attn_logit_softcapping", "final_logit_softcapping", "attention_chunk_size",
        "no_rope_layers", "clip_qkv", "num_experts", "query_pre_attn_scalar"})
    expect_unsupported(changed({{key, 3}}), "has " + std::string(key) + ", which is not implemented");
  expect_unsupported(changed({{"partial_rotary_factor", 0.5}}), "partial_rotary_factor other than 1");
  expect_unsupported(changed({{"rope_parameters", {{"partial_rotary_factor", 0.5}}}}),
                     "rope_parameters: partial_rotary_factor other than 1 is not implemented");
  expect_unsupported(changed({{"is_causal", false}}), "is_causal is false, want true");
  expect_unsupported(changed({{"layer_types", {"full_attention", "linear_attention"}}}),
                     R"(layer_types has "linear_attention", want only full_attention and sliding_attention)");
  expect_unsupported(changed({{"layer_types", 5}}),
                     "layer_types has 5, want only full_attention and sliding_attention");
}

TEST(ModelConfig, WhatChangesNothingIsTaken) {
  const Json harmless{{"hidden_act", "silu"},
                      {"use_sliding_window", false},
                      {"sliding_window", 4096},
                      {"max_window_layers", 28},
                      {"quantization_config", nullptr},
                      {"partial_rotary_factor", 1.0},
                      {"layer_types", {"full_attention", "full_attention"}},
                      {"attention_dropout", 0.1},
                      {"final_logit_softcapping", nullptr},
                      {"logits_scaling", 1.0},
                      {"num_experts", 0},
                      {"is_causal", true},
                      {"use_mrope", false}};
  EXPECT_EQ(parse(changed(harmless)).hidden_size, 8);
  EXPECT_EQ(stderr_of(changed(harmless)), "");
}

TEST(ModelConfig, AnUnknownArchitectureIsToldTheKnownOnes) {
  std::string known;
  for (const Family* family : families())
    known += (known.empty() ? "" : ", ") + std::string(family->architecture);
  expect_unsupported(changed({{"architectures", {"GPT2LMHeadModel"}}}),
                     "architecture is GPT2LMHeadModel, want one of: " + known);
  EXPECT_NE(known.find("Qwen3ForCausalLM"), std::string::npos);
}

TEST(ModelConfig, ArchitecturesIsAListWithAName) {
  expect_refused(without("architectures"), "architectures is missing, want a list with a name");
  for (const Json& wrong : {Json("Qwen3ForCausalLM"), Json::array(), Json::array({3}), Json::object()})
    expect_refused(changed({{"architectures", wrong}}), "architectures is " + wrong.dump() + ", want a list");
}

TEST(ModelConfig, SizesThatMustBeThereAreNamed) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "max_position_embeddings"}) {
    expect_refused(without(key), std::string("has no ") + key);
    expect_refused(changed({{key, nullptr}}), std::string("has no ") + key);
  }
}

TEST(ModelConfig, SizesMustBeWholeNumbersInRange) {
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "max_position_embeddings"})
    for (const Json& wrong : {Json(0), Json(-1), Json(1.5), Json("8"), Json::array({8}), Json(true),
                              Json(int64_t{1} << 40), Json(~uint64_t{0})})
      expect_refused(changed({{key, wrong}}),
                     key + (" is " + wrong.dump()) + ", want a whole number from 1 to ");
  expect_refused(changed({{"head_dim", 258}}), "head_dim is 258, want a whole number from 1 to 256");
  expect_refused(changed({{"num_hidden_layers", 1025}}),
                 "num_hidden_layers is 1025, want a whole number from 1 to 1024");
}

TEST(ModelConfig, SizesMustFitTogether) {
  expect_refused(changed({{"num_key_value_heads", 3}}),
                 "num_attention_heads is 4, want a multiple of num_key_value_heads=3");
  expect_refused(changed({{"head_dim", 5}}), "head_dim is 5, want an even number");
  Json no_head_dim = without("head_dim");
  EXPECT_EQ(parse(no_head_dim).head_dim, 2);  // 8 over 4 heads
  no_head_dim["hidden_size"] = 10;
  expect_refused(no_head_dim, "has no head_dim, and hidden_size=10 over 4 heads gives none");
  no_head_dim["hidden_size"] = 4096;
  expect_refused(no_head_dim, "has no head_dim, and hidden_size=4096 over 4 heads gives none");
}

TEST(ModelConfig, Defaults) {
  Json config = Json::parse(test::kTinyConfig);
  for (const char* key : {"num_key_value_heads", "rms_norm_eps", "tie_word_embeddings", "hidden_act"})
    config.erase(key);
  const ModelConfig c = parse(config);
  EXPECT_EQ(c.num_kv_heads, 4);  // as many as query heads
  EXPECT_EQ(c.rms_norm_eps, 1e-6f);
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_TRUE(c.eos_token_ids.empty());
}

TEST(ModelConfig, OtherFieldsOfAWrongTypeAreRefused) {
  expect_refused(changed({{"rms_norm_eps", "small"}}), R"(rms_norm_eps is "small", want a number)");
  expect_refused(changed({{"rms_norm_eps", 0}}), "rms_norm_eps is 0, want a positive number");
  expect_refused(changed({{"rms_norm_eps", -1e-6}}), "rms_norm_eps is -1e-06, want a positive number");
  expect_refused(changed({{"tie_word_embeddings", "no"}}),
                 R"(tie_word_embeddings is "no", want true or false)");
  expect_refused(changed({{"attention_bias", 1}}), "attention_bias is 1, want true or false");
  expect_refused(changed({{"use_sliding_window", "no"}}),
                 R"(use_sliding_window is "no", want true or false)");
  expect_refused(changed({{"hidden_act", 3}}), "hidden_act is 3, want a string");
  expect_refused(changed({{"eos_token_id", "x"}}),
                 R"(eos_token_id is "x", want a token id or a list of them)");
}

TEST(ModelConfig, AttentionBiasSwitchesTheBiasesOn) {
  const ModelConfig c = parse(changed({{"attention_bias", true}}));
  EXPECT_TRUE(c.qkv_bias && c.o_bias && c.qk_norm);
}

TEST(ModelConfig, EosIsOneIdOrAListOrNone) {
  EXPECT_EQ(parse(changed({{"eos_token_id", 3}})).eos_token_ids, (std::vector<TokenId>{3}));
  EXPECT_EQ(parse(changed({{"eos_token_id", {3, 4}}})).eos_token_ids, (std::vector<TokenId>{3, 4}));
  EXPECT_TRUE(parse(changed({{"eos_token_id", nullptr}})).eos_token_ids.empty());
}

void expect_no_config(const std::string& text, const std::string& name) {
  test::expect_error(ErrorKind::kConfig, text, [&] { parse_model_config(name, "config.json"); });
}

TEST(ModelConfig, WhatIsNoJsonObjectIsRefused) {
  for (const char* text :
       {"", "{", "<html>", "version https://git-lfs.github.com/spec/v1", "{\"a\": \"\xFF\"}"})
    expect_no_config("config.json: is not JSON: ", text);
  expect_no_config("config.json: is array, want a JSON object", "[]");
  expect_no_config("config.json: is null, want a JSON object", "null");
  expect_no_config("config.json: is string, want a JSON object", "\"config\"");
}

// Hostile depth must end in a message, not in the stack's end.
TEST(ModelConfig, DeepNestingIsRefused) {
  const size_t depth = 1 << 20;
  expect_no_config("config.json: is nested deeper than 100 levels",
                   R"({"architectures": )" + std::string(depth, '[') + std::string(depth, ']') + "}");
}

TEST(ModelConfig, TheModelFolderIsNamedWhereItIsNone) {
  test::ScratchFolder folder;
  const auto expect_no_folder = [&](const std::filesystem::path& path, const std::string& text) {
    test::expect_error(ErrorKind::kConfig, path.string() + text, [&] { read_model_config(path); });
  };
  expect_no_folder(folder / "nowhere", ": no such folder, want a Hugging Face model folder");
  expect_no_folder(folder.path(), ": has no config.json, want a Hugging Face model folder");
  const auto file = folder.write("config.json", "[]");
  expect_no_folder(file, ": is a file, want a Hugging Face model folder");
  test::expect_error(ErrorKind::kConfig, file.string() + ": is array, want a JSON object",
                     [&] { read_model_config(folder.path()); });
  folder.write("config.json", test::kTinyConfig);
  EXPECT_EQ(read_model_config(folder.path()).vocab_size, 21);
}

}  // namespace
}  // namespace nanovllm
