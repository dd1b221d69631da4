#include "models/rope_config.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "models/model_config.h"
#include "models/tiny_model.h"

namespace nanovllm {
namespace {

using Json = nlohmann::json;

// The tiny Qwen3's config with these fields; none of its own about rope.
Json with(const Json& fields) {
  Json config = Json::parse(test::kTinyConfig);
  config.erase("rope_theta");
  config.update(fields);
  return config;
}

ModelConfig parse(const Json& json) { return parse_model_config(json.dump(), "config.json"); }
RopeConfig rope_of(const Json& fields) { return parse(with(fields)).rope; }

void expect_refused(const Json& fields, const std::string& text, ErrorKind kind = ErrorKind::kConfig) {
  test::expect_error(kind, "config.json: " + text, [&] { parse(with(fields)); });
}

const Json kYarn{{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}};
const Json kLlama3{{"rope_type", "llama3"},
                   {"factor", 8.0},
                   {"low_freq_factor", 1.0},
                   {"high_freq_factor", 4.0},
                   {"original_max_position_embeddings", 16}};

Json with_theta(Json rope) {
  rope["rope_theta"] = 5e5;
  return rope;
}

// What transformers makes of each case of tests/golden/rope, in both forms.
TEST(RopeConfig, FrequenciesAreThoseOfTransformers) {
  const Json cases = Json::parse(read_file(test::golden("rope") / "cases.json"));
  const Checkpoint tables = open_safetensors(test::golden("rope") / "tables.safetensors");
  ASSERT_GE(cases.size(), 14u);
  for (const auto& [name, fields] : cases.items()) {
    SCOPED_TRACE(name);
    Json old_form = fields;
    old_form.erase("rope_parameters");
    Json scaling = fields["rope_parameters"];
    old_form["rope_theta"] = scaling["rope_theta"];
    scaling.erase("rope_theta");
    scaling["type"] = scaling["rope_type"];
    scaling.erase("rope_type");
    old_form["rope_scaling"] = scaling["type"] == "default" ? Json(nullptr) : scaling;
    EXPECT_EQ(rope_of(old_form), rope_of(fields));
    Json both = fields;
    both.update(old_form);
    EXPECT_EQ(rope_of(both), rope_of(fields));

    const int dim = fields["head_dim"];
    const std::vector<float> got = RotaryEmbedding::inverse_frequencies(dim, rope_of(fields));
    const CheckpointTensor& tensor = *tables.find(name + ".inv_freq");
    std::vector<float> want(tensor.data.size() / sizeof(float));
    std::memcpy(want.data(), tensor.data.data(), tensor.data.size());
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i] / want[i], 1, 0x1p-22) << i;
  }
}

TEST(RopeConfig, EveryFieldOfYarn) {
  const RopeConfig c = rope_of({{"rope_theta", 1e6},
                                {"rope_scaling",
                                 {{"type", "yarn"},
                                  {"factor", 4},
                                  {"original_max_position_embeddings", 48},
                                  {"attention_factor", 1.25},
                                  {"beta_fast", 16},
                                  {"beta_slow", 2},
                                  {"truncate", false},
                                  {"mscale", 0.5},
                                  {"mscale_all_dim", 0.75}}}});
  EXPECT_EQ(c, (RopeConfig{.type = RopeType::kYarn,
                           .theta = 1e6,
                           .factor = 4,
                           .original_max_positions = 48,
                           .beta_fast = 16,
                           .beta_slow = 2,
                           .truncate = false,
                           .attention_factor = 1.25,
                           .mscale = 0.5,
                           .mscale_all_dim = 0.75}));
}

TEST(RopeConfig, EveryFieldOfLlama3) {
  EXPECT_EQ(rope_of({{"rope_parameters", with_theta(kLlama3)}}), (RopeConfig{.type = RopeType::kLlama3,
                                                                             .theta = 5e5,
                                                                             .factor = 8,
                                                                             .original_max_positions = 16,
                                                                             .low_freq_factor = 1,
                                                                             .high_freq_factor = 4}));
}

// PITFALLS: the limit grows by the factor once, whatever max_position_embeddings says already; and only YaRN's.
TEST(RopeConfig, YarnStretchesTheContextOnce) {
  const auto limit_of = [](Json fields) {
    fields["rope_theta"] = 1e4;
    return parse(with(fields)).max_model_len;
  };
  for (const int max_position_embeddings : {32, 40, 128})
    EXPECT_EQ(limit_of({{"max_position_embeddings", max_position_embeddings}, {"rope_scaling", kYarn}}), 128);
  Json no_original = kYarn;
  no_original.erase("original_max_position_embeddings");
  EXPECT_EQ(limit_of({{"max_position_embeddings", 40}, {"rope_scaling", no_original}}), 160);
  EXPECT_EQ(limit_of({{"max_position_embeddings", 40}, {"rope_scaling", kLlama3}}), 40);
  EXPECT_EQ(
      limit_of({{"max_position_embeddings", 40}, {"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}), 40);
  EXPECT_EQ(limit_of({{"max_position_embeddings", 40}}), 40);
}

TEST(RopeConfig, AnOriginalContextOutsideCounts) {
  Json inside = kYarn;
  inside.erase("original_max_position_embeddings");
  const RopeConfig want = rope_of({{"rope_theta", 1e4}, {"rope_scaling", kYarn}});
  EXPECT_EQ(
      rope_of({{"rope_theta", 1e4}, {"rope_scaling", inside}, {"original_max_position_embeddings", 32}}),
      want);
  EXPECT_EQ(rope_of({{"rope_theta", 1e4}, {"rope_scaling", kYarn}, {"original_max_position_embeddings", 32}}),
            want);
  expect_refused({{"rope_theta", 1e4}, {"rope_scaling", kYarn}, {"original_max_position_embeddings", 33}},
                 "original_max_position_embeddings is 33, and 32 in the rope fields, want one value");
}

TEST(RopeConfig, TwoFormsThatDisagreeAreRefused) {
  expect_refused({{"rope_theta", 5e5}, {"rope_parameters", kYarn}, {"rope_scaling", kLlama3}},
                 "rope_parameters and rope_scaling disagree, want one of them");
  Json other = kYarn;
  other["factor"] = 2;
  expect_refused({{"rope_theta", 5e5}, {"rope_parameters", kYarn}, {"rope_scaling", other}},
                 "rope_parameters and rope_scaling disagree, want one of them");
  expect_refused(
      {{"rope_theta", 5e5}, {"rope_parameters", {{"rope_type", "default"}}}, {"rope_scaling", kYarn}},
      "rope_parameters and rope_scaling disagree, want one of them");
  Json names = kYarn;
  names["type"] = "linear";
  expect_refused({{"rope_theta", 5e5}, {"rope_scaling", names}},
                 "rope_scaling: rope_type is yarn and type is linear, want one value");
}

TEST(RopeConfig, WhatIsNotImplementedIsRefusedByName) {
  const auto expect_unsupported = [](const Json& rope, const std::string& text) {
    for (const char* key : {"rope_scaling", "rope_parameters"})
      expect_refused({{"rope_theta", 1e4}, {key, rope}}, key + (": " + text), ErrorKind::kUnsupported);
  };
  expect_unsupported({{"type", "dynamic"}, {"factor", 2}},
                     "rope_type is dynamic, by which an answer would depend on its length");
  for (const char* type : {"longrope", "su", "mrope", "ntk"})
    expect_unsupported({{"type", type}},
                       std::string("rope_type is ") + type + ", want default, linear, yarn or llama3");
  Json sections = kYarn;
  sections["mrope_section"] = {16, 24, 24};
  expect_unsupported(sections, "has mrope_section, which is not implemented for its rope_type");
  expect_unsupported({{"rope_type", "default"}, {"factor", 2}},
                     "has factor, which is not implemented for its rope_type");
  Json factor = kYarn;  // as DeepSeek-R1-0528-Qwen3-8B has it
  factor["attn_factor"] = 0.878;
  expect_unsupported(
      factor,
      "has attn_factor, which Hugging Face leaves out and others multiply with: take it out, or "
      "write attention_factor, which replaces 0.1 ln(factor) + 1");
  expect_unsupported({{"full_attention", kYarn}}, "has full_attention, which is not implemented");
  expect_unsupported({{"rope_type", "linear"}, {"factor", 2}, {"partial_rotary_factor", 0.5}},
                     "partial_rotary_factor other than 1 is not implemented");
  Json harmless = kYarn;
  harmless["finetuned"] = true;
  EXPECT_EQ(rope_of({{"rope_theta", 1e4}, {"rope_scaling", harmless}}),
            rope_of({{"rope_theta", 1e4}, {"rope_scaling", kYarn}}));
  EXPECT_EQ(int(rope_of({{"rope_theta", 1e4},
                         {"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"partial_rotary_factor", 1}}}})
                    .type),
            int(RopeType::kLinear));
}

TEST(RopeConfig, ValuesThatMakeNoSenseAreRefused) {
  const auto expect_wrong = [](Json rope, const Json& changes, const std::string& text) {
    for (const auto& [key, value] : changes.items()) {
      if (value.is_null())
        rope.erase(key);
      else
        rope[key] = value;
    }
    expect_refused({{"rope_theta", 1e4}, {"rope_scaling", rope}}, "rope_scaling: " + text);
  };
  for (const Json& rope : {kYarn, kLlama3, Json{{"type", "linear"}, {"factor", 2}}}) {
    expect_wrong(rope, {{"factor", nullptr}}, "has no factor");
    expect_wrong(rope, {{"factor", 0.5}}, "factor is 0.5, want at least 1");
    expect_wrong(rope, {{"factor", -1}}, "factor is -1, want a positive number");
    expect_wrong(rope, {{"factor", "4"}}, R"(factor is "4", want a number)");
  }
  for (const Json& rope : {kYarn, kLlama3})
    expect_wrong(rope, {{"original_max_position_embeddings", 0}},
                 "original_max_position_embeddings is 0, want a whole number from 1");
  expect_wrong(kYarn, {{"attention_factor", 0}}, "attention_factor is 0, want a positive number");
  expect_wrong(kYarn, {{"beta_fast", -1}}, "beta_fast is -1, want a positive number");
  expect_wrong(kYarn, {{"beta_slow", 64}}, "beta_fast is 32, want at least beta_slow=64");
  expect_wrong(kYarn, {{"truncate", 1}}, "truncate is 1, want true or false");
  expect_wrong(kLlama3, {{"original_max_position_embeddings", nullptr}},
               "has no original_max_position_embeddings");
  expect_wrong(kLlama3, {{"low_freq_factor", nullptr}}, "has no low_freq_factor");
  expect_wrong(kLlama3, {{"high_freq_factor", nullptr}}, "has no high_freq_factor");
  expect_wrong(kLlama3, {{"low_freq_factor", 4}}, "low_freq_factor is 4, want less than high_freq_factor=4");
}

}  // namespace
}  // namespace nanovllm
