#include "models/generation_config.h"

#include <gtest/gtest.h>

#include "support.h"

namespace nanovllm {
namespace {

using Ids = std::vector<TokenId>;

Ids eos_of(const std::string& json) { return parse_generation_config(json, "g.json").eos_token_ids; }

void expect_refused(const std::string& json, const std::string& text) {
  test::expect_error(ErrorKind::kConfig, text, [&] { parse_generation_config(json, "g.json"); });
}

TEST(GenerationConfig, EosIsOneIdOrAListOrNone) {
  EXPECT_EQ(eos_of(R"({"eos_token_id": 151645})"), (Ids{151645}));
  EXPECT_EQ(eos_of(R"({"eos_token_id": [151645, 151643]})"), (Ids{151645, 151643}));
  EXPECT_EQ(eos_of(R"({"eos_token_id": []})"), Ids{});
  EXPECT_EQ(eos_of(R"({"eos_token_id": null})"), Ids{});
  EXPECT_EQ(eos_of("{}"), Ids{});
  EXPECT_EQ(eos_of(R"({"eos_token_id": 0})"), (Ids{0}));
}

TEST(GenerationConfig, EosOfAnotherTypeIsRefused) {
  for (const char* wrong : {R"("1")", "1.5", "-1", "[1, -2]", "[1, null]", "[[1]]", "true", "{}",
                            "2147483648", "18446744073709551615"})
    expect_refused(std::string(R"({"eos_token_id": )") + wrong + "}", "g.json: eos_token_id is ");
  expect_refused(R"({"eos_token_id": "</s>"})",
                 R"(g.json: eos_token_id is "</s>", want a token id or a list of them)");
}

TEST(GenerationConfig, HowItWantsToBeSampled) {
  const GenerationConfig config = parse_generation_config(
      R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.05, "transformers_version": "4.51.0"})",
      "g.json");
  EXPECT_EQ(config.do_sample, true);
  EXPECT_EQ(config.temperature, 0.6f);
  EXPECT_EQ(config.top_k, 20);
  EXPECT_EQ(config.top_p, 0.95f);
  EXPECT_EQ(config.min_p, 0.05f);
}

TEST(GenerationConfig, WhatIsNotThereStaysUnset) {
  for (const char* json :
       {"{}", R"({"do_sample": null, "temperature": null, "top_k": null, "top_p": null})"}) {
    const GenerationConfig config = parse_generation_config(json, "g.json");
    EXPECT_FALSE(config.do_sample || config.temperature || config.top_k || config.top_p) << json;
  }
}

TEST(GenerationConfig, OtherTypesAreRefusedByName) {
  expect_refused(R"({"do_sample": 1})", "g.json: do_sample is 1, want true or false");
  expect_refused(R"({"temperature": "0.6"})", R"(g.json: temperature is "0.6", want a number)");
  expect_refused(R"({"top_p": [0.9]})", "g.json: top_p is [0.9], want a number");
  expect_refused(R"({"top_k": 2.5})", "g.json: top_k is 2.5, want a whole number from -1 to 2147483647");
  expect_refused(R"({"top_k": -2})", "g.json: top_k is -2, want a whole number from -1 to 2147483647");
}

TEST(GenerationConfig, ValuesThatMakeNoSenseAreRefused) {
  expect_refused(R"({"temperature": -0.5})", "g.json: temperature is -0.5, want ");
  expect_refused(R"({"temperature": 2.5})", "g.json: temperature is 2.5, want ");
  expect_refused(R"({"top_p": 0})", "g.json: top_p is 0, want more than 0 and at most 1");
  expect_refused(R"({"top_p": 1.5})", "g.json: top_p is 1.5, want more than 0 and at most 1");
  expect_refused(R"({"min_p": -0.5})", "g.json: min_p is -0.5, want 0 to 1");
  expect_refused(R"({"min_p": 2})", "g.json: min_p is 2, want 0 to 1");
  expect_refused(R"({"repetition_penalty": 0})", "g.json: repetition_penalty is 0, want 0.001 to 1000");
  EXPECT_EQ(parse_generation_config(R"({"temperature": 0})", "g.json").temperature, 0.0f);
  EXPECT_EQ(parse_generation_config(R"({"temperature": 2, "top_p": 1})", "g.json").temperature, 2.0f);
}

TEST(GenerationConfig, WhatIsNotImplementedIsSaidOnceByName) {
  const auto stderr_of = [](const std::string& json) {
    testing::internal::CaptureStderr();
    parse_generation_config(json, "g.json");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(parse_generation_config(R"({"repetition_penalty": 1.05})", "g.json").repetition_penalty, 1.05f);
  EXPECT_EQ(stderr_of(R"({"typical_p": 0.9})"),
            "nanovllm: warning: g.json: typical_p is not implemented and has no effect\n");
  EXPECT_EQ(
      stderr_of(
          R"({"repetition_penalty": 1.0, "min_p": 0.1, "typical_p": 1, "num_beams": 1, "length_penalty": null})"),
      "");
}

TEST(GenerationConfig, ADamagedFileIsRefused) {
  expect_refused("", "g.json: is not JSON");
  expect_refused("{", "g.json: is not JSON");
  expect_refused("[1]", "g.json: is array, want a JSON object");
}

TEST(GenerationConfig, NoFileIsAnEmptyOne) {
  test::ScratchFolder folder;
  EXPECT_TRUE(read_generation_config(folder.path()).eos_token_ids.empty());
  folder.write("generation_config.json", R"({"eos_token_id": 7})");
  EXPECT_EQ(read_generation_config(folder.path()).eos_token_ids, (Ids{7}));
  const auto file = folder.write("generation_config.json", "<html>");
  test::expect_error(ErrorKind::kConfig, file.string() + ": is not JSON",
                     [&] { read_generation_config(folder.path()); });
}

TEST(GenerationConfig, ALinkToNothingIsAnError) {
  test::ScratchFolder folder;
  std::filesystem::create_symlink("nowhere", folder / "generation_config.json");
  EXPECT_THROW(read_generation_config(folder.path()), Error);
}

TEST(GenerationConfig, OfTheReferenceModels) {
  EXPECT_EQ(read_generation_config(test::golden("qwen3-tied-bf16")).eos_token_ids, (Ids{1}));
}

}  // namespace
}  // namespace nanovllm
