// Each family's switches, from configs as published models have them.
#include "models/families.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/decoder.h"
#include "models/tiny_model.h"

namespace nanovllm {
namespace {

using Json = nlohmann::json;

// The tiny config as one of this architecture.
Json of(const std::string& architecture, const Json& fields = Json::object()) {
  Json config = Json::parse(test::kTinyConfig);
  config["architectures"] = {architecture};
  config.update(fields);
  return config;
}

ModelConfig parse(const Json& json) { return parse_model_config(json.dump(), "config.json"); }

std::string stderr_of(const Json& json) {
  testing::internal::CaptureStderr();
  parse(json);
  return testing::internal::GetCapturedStderr();
}

void expect_unsupported(const Json& json, const std::string& text) {
  test::expect_error(ErrorKind::kUnsupported, "config.json: " + text, [&] { parse(json); });
}

// qk_norm, qkv_bias, o_bias, mlp_bias
using Switches = std::array<bool, 4>;
Switches switches(const Json& json) {
  const ModelConfig c = parse(json);
  return {c.qk_norm, c.qkv_bias, c.o_bias, c.mlp_bias};
}

TEST(Families, Switches) {
  const Json attention{{"attention_bias", true}}, mlp{{"mlp_bias", true}};
  EXPECT_EQ(switches(of("Qwen3ForCausalLM")), (Switches{true, false, false, false}));
  EXPECT_EQ(switches(of("Qwen3ForCausalLM", attention)), (Switches{true, true, true, false}));
  EXPECT_EQ(switches(of("Qwen2ForCausalLM")), (Switches{false, true, false, false}));
  EXPECT_EQ(switches(of("LlamaForCausalLM")), (Switches{false, false, false, false}));
  EXPECT_EQ(switches(of("LlamaForCausalLM", attention)), (Switches{false, true, true, false}));
  EXPECT_EQ(switches(of("LlamaForCausalLM", mlp)), (Switches{false, false, false, true}));
  EXPECT_EQ(switches(of("MistralForCausalLM", {{"sliding_window", nullptr}})),
            (Switches{false, false, false, false}));
}

TEST(Families, RopeThetaWhereTheFileHasNone) {
  for (const auto& [architecture, theta] :
       std::vector<std::pair<std::string, double>>{{"Qwen3ForCausalLM", 1e6},
                                                   {"Qwen2ForCausalLM", 1e4},
                                                   {"LlamaForCausalLM", 1e4},
                                                   {"MistralForCausalLM", 1e4}}) {
    Json config = of(architecture, {{"sliding_window", nullptr}});
    config.erase("rope_theta");
    testing::internal::CaptureStderr();
    EXPECT_EQ(parse(config).rope.theta, theta) << architecture;
    EXPECT_NE(testing::internal::GetCapturedStderr().find("has no rope_theta"), std::string::npos);
  }
}

// Fields as on the models' pages, sizes made small: nothing in them is unknown.
TEST(Families, ConfigsOfPublishedModels) {
  const Json smollm2 = of("LlamaForCausalLM", {{"is_llama_config", true},
                                               {"rope_interleaved", false},
                                               {"rope_scaling", nullptr},
                                               {"rope_theta", 100000},
                                               {"pretraining_tp", 1},
                                               {"mlp_bias", false},
                                               {"tie_word_embeddings", true},
                                               {"transformers.js_config", {{"kv_cache_dtype", "fp16"}}}});
  const Json llama3 = of("LlamaForCausalLM", {{"rope_theta", 500000.0},
                                              {"head_dim", 4},
                                              {"rope_scaling",
                                               {{"factor", 32.0},
                                                {"high_freq_factor", 4.0},
                                                {"low_freq_factor", 1.0},
                                                {"original_max_position_embeddings", 8192},
                                                {"rope_type", "llama3"}}},
                                              {"eos_token_id", {1, 2, 3}}});
  const Json qwen25 = of("Qwen2ForCausalLM", {{"use_mrope", false},
                                              {"use_sliding_window", false},
                                              {"sliding_window", 32768},
                                              {"max_window_layers", 21}});
  const Json mistral =
      of("MistralForCausalLM", {{"sliding_window", nullptr}, {"head_dim", nullptr}, {"hidden_size", 16}});
  for (const Json& config : {smollm2, llama3, qwen25, mistral}) EXPECT_EQ(stderr_of(config), "");
  EXPECT_EQ(parse(smollm2).rope.theta, 1e5);
  EXPECT_EQ(int(parse(llama3).rope.type), int(RopeType::kLlama3));
  EXPECT_EQ(parse(mistral).head_dim, 4);
}

// Attention sees all keys, which is right up to the window: no sequence is longer.
TEST(Families, AWindowLimitsTheContext) {
  const auto limit_of = [](const std::string& architecture, const Json& fields) {
    Json config = of(architecture, {{"max_position_embeddings", 8192}});
    config.update(fields);
    testing::internal::CaptureStderr();
    const int limit = parse(config).max_model_len;
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(text,
              limit == 8192
                  ? ""
                  : "nanovllm: warning: config.json: has a sliding_window, which is not implemented, of " +
                        std::to_string(limit) + " tokens: no sequence can be longer than that\n");
    return limit;
  };
  for (const char* architecture : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    const Json used{{"use_sliding_window", true}, {"max_window_layers", 0}, {"sliding_window", 64}};
    const auto with = [&](const Json& changes) {
      Json fields = used;
      fields.update(changes);
      return limit_of(architecture, fields);
    };
    EXPECT_EQ(with(Json::object()), 64);
    EXPECT_EQ(with({{"sliding_window", 8192}}), 8192);
    EXPECT_EQ(with({{"max_window_layers", 1}}), 64);
    EXPECT_EQ(with({{"max_window_layers", 2}}), 8192);  // no layer slides
    EXPECT_EQ(with({{"use_sliding_window", false}}), 8192);
    EXPECT_EQ(with({{"sliding_window", nullptr}}), 8192);
    EXPECT_EQ(limit_of(architecture, {{"use_sliding_window", true}, {"max_window_layers", 0}}), 4096);
    EXPECT_EQ(limit_of(architecture, {{"use_sliding_window", true}}),
              8192);  // of 28 layers, the tiny model has 2
    EXPECT_EQ(limit_of(architecture, {{"sliding_window", 64}}), 8192);
  }
  EXPECT_EQ(limit_of("MistralForCausalLM", {{"sliding_window", 64}}), 64);
  EXPECT_EQ(limit_of("MistralForCausalLM", {{"sliding_window", nullptr}}), 8192);
  EXPECT_EQ(limit_of("MistralForCausalLM", Json::object()), 4096);
  EXPECT_EQ(limit_of("LlamaForCausalLM", {{"sliding_window", 64}}), 8192);  // Llama knows none
  const Json types{{"layer_types", {"full_attention", "sliding_attention"}}, {"sliding_window", 100}};
  EXPECT_EQ(limit_of("Qwen3ForCausalLM", types), 100);
  EXPECT_EQ(limit_of("LlamaForCausalLM", types), 100);
  EXPECT_EQ(limit_of("Qwen3ForCausalLM", {{"layer_types", {"full_attention", "full_attention"}},
                                          {"use_sliding_window", true},
                                          {"max_window_layers", 0},
                                          {"sliding_window", 100}}),
            8192);  // layer_types has the last word
}

TEST(Families, MixturesOfExpertsAreRefusedByName) {
  expect_unsupported(of("Qwen3MoeForCausalLM", {{"num_experts", 8}}),
                     "architecture is Qwen3MoeForCausalLM, want one of: ");
  expect_unsupported(of("LlamaForCausalLM", {{"num_local_experts", 8}}),
                     "has num_local_experts, which is not implemented");
}

TEST(Families, UnknownFieldsAreSaid) {
  EXPECT_EQ(stderr_of(of("Qwen3ForCausalLM",
                         {{"zeta", 1}, {"dual_chunk_attention_config", {{"a", 1}}}, {"nothing", nullptr}})),
            "nanovllm: warning: config.json: has dual_chunk_attention_config, zeta, which nanovllm does not "
            "know and "
            "leaves out\n");
}

TEST(Families, SizesOverWhichAModelCanBeSplit) {
  const auto sizes_of = [](const Json& fields) {
    return tensor_parallel_sizes(parse(of("Qwen3ForCausalLM", fields)));
  };
  using Sizes = std::vector<int>;
  EXPECT_EQ(sizes_of(Json::object()), (Sizes{1, 2, 4}));  // 4 heads, 2 kv heads that ranks share
  EXPECT_EQ(sizes_of({{"vocab_size", 151}}), (Sizes{1, 2, 4}));
  EXPECT_EQ(sizes_of({{"intermediate_size", 13}}), (Sizes{1}));
  EXPECT_EQ(sizes_of({{"intermediate_size", 14}}), (Sizes{1}));
  EXPECT_EQ(sizes_of({{"num_attention_heads", 14}, {"num_key_value_heads", 2}}), (Sizes{1, 2}));
  EXPECT_EQ(sizes_of({{"num_attention_heads", 12}, {"num_key_value_heads", 3}}), (Sizes{1}));
  EXPECT_EQ(sizes_of({{"num_attention_heads", 12}, {"num_key_value_heads", 6}}), (Sizes{1, 2}));
  EXPECT_EQ(sizes_of({{"num_attention_heads", 8}, {"num_key_value_heads", 1}}), (Sizes{1, 2, 4}));
  EXPECT_EQ(sizes_of({{"num_attention_heads", 3}, {"num_key_value_heads", 3}}), (Sizes{1}));
  EXPECT_EQ(sizes_of({{"num_attention_heads", 2}, {"num_key_value_heads", 2}}), (Sizes{1, 2}));
}

TEST(Families, ASizeThatIsImpossibleIsToldThePossibleOnes) {
  const ModelConfig config =
      parse(of("Qwen3ForCausalLM", {{"num_attention_heads", 14}, {"num_key_value_heads", 2}}));
  for (const int size : {0, 3, 4, 8})
    test::expect_error(
        ErrorKind::kUnsupported,
        "tensor_parallel_size: is " + std::to_string(size) +
            ", want 1 or 2 for this model: it has 14 heads, 2 kv heads and an intermediate_size of 12",
        [&] { check_tensor_parallel_size(config, size); });
  for (const int size : {1, 2}) check_tensor_parallel_size(config, size);
}

}  // namespace
}  // namespace nanovllm
