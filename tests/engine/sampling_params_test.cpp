#include "engine/sampling_params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace nanovllm {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What is said of a parameter set; "" of a right one.
template <class Change>
std::string verdict(Change&& change, int64_t vocab_size = 100) {
  SamplingParams params;
  change(params);
  try {
    check_sampling_params(params, vocab_size);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(int(error.kind()), int(ErrorKind::kRequest));
    return error.what();
  }
}

std::string with_temperature(float value) {
  return verdict([=](SamplingParams& p) { p.temperature = value; });
}
std::string with_top_p(float value) {
  return verdict([=](SamplingParams& p) { p.top_p = value; });
}
std::string with_top_k(int value) {
  return verdict([=](SamplingParams& p) { p.top_k = value; });
}
std::string with_max_tokens(int value) {
  return verdict([=](SamplingParams& p) { p.max_tokens = value; });
}
std::string with_stop_ids(std::vector<TokenId> ids, int64_t vocab_size = 100) {
  return verdict([&](SamplingParams& p) { p.stop_token_ids = std::move(ids); }, vocab_size);
}

TEST(SamplingParams, DefaultsAreRight) {
  EXPECT_EQ(verdict([](SamplingParams&) {}), "");
}

TEST(SamplingParams, TemperatureFrom0To2) {
  for (const float right :
       {0.0f, -0.0f, std::numeric_limits<float>::denorm_min(), 1e-9f, 1e-5f, 0.001f, 2.0f})
    EXPECT_EQ(with_temperature(right), "") << right;
  EXPECT_EQ(with_temperature(std::nextafter(2.0f, 3.0f)), "temperature: is 2, want 0 to 2");
  EXPECT_EQ(with_temperature(2.5f), "temperature: is 2.5, want 0 to 2");
  EXPECT_EQ(with_temperature(-0.5f), "temperature: is -0.5, want 0 to 2");
  EXPECT_EQ(with_temperature(kNan), "temperature: is nan, want 0 to 2");
  EXPECT_EQ(with_temperature(kInf), "temperature: is inf, want 0 to 2");
  EXPECT_EQ(with_temperature(-kInf), "temperature: is -inf, want 0 to 2");
}

TEST(SamplingParams, NFrom1To128) {
  const auto with_n = [](int value) { return verdict([=](SamplingParams& p) { p.n = value; }); };
  EXPECT_EQ(with_n(1), "");
  EXPECT_EQ(with_n(128), "");
  EXPECT_EQ(with_n(0), "n: is 0, want 1 to 128");
  EXPECT_EQ(with_n(-1), "n: is -1, want 1 to 128");
  EXPECT_EQ(with_n(129), "n: is 129, want 1 to 128");
  EXPECT_EQ(with_n(1000000000), "n: is 1000000000, want 1 to 128");
}

TEST(SamplingParams, TopPMoreThan0AtMost1) {
  for (const float right : {std::numeric_limits<float>::denorm_min(), 0.5f, 1.0f})
    EXPECT_EQ(with_top_p(right), "") << right;
  EXPECT_EQ(with_top_p(0), "top_p: is 0, want more than 0 and at most 1");
  EXPECT_EQ(with_top_p(-0.1f), "top_p: is -0.1, want more than 0 and at most 1");
  EXPECT_EQ(with_top_p(1.5f), "top_p: is 1.5, want more than 0 and at most 1");
  EXPECT_EQ(with_top_p(kNan), "top_p: is nan, want more than 0 and at most 1");
  EXPECT_EQ(with_top_p(kInf), "top_p: is inf, want more than 0 and at most 1");
}

TEST(SamplingParams, MinPFrom0To1) {
  const auto with_min_p = [](float value) { return verdict([=](SamplingParams& p) { p.min_p = value; }); };
  for (const float right : {0.0f, -0.0f, std::numeric_limits<float>::denorm_min(), 0.5f, 1.0f})
    EXPECT_EQ(with_min_p(right), "") << right;
  EXPECT_EQ(with_min_p(-0.1f), "min_p: is -0.1, want 0 to 1");
  EXPECT_EQ(with_min_p(1.5f), "min_p: is 1.5, want 0 to 1");
  EXPECT_EQ(with_min_p(kNan), "min_p: is nan, want 0 to 1");
}

TEST(SamplingParams, TopKMinus1OrMore) {
  for (const int right : {-1, 0, 1, 100, std::numeric_limits<int>::max()})
    EXPECT_EQ(with_top_k(right), "") << right;
  EXPECT_EQ(with_top_k(-2), "top_k: is -2, want 0 (all) or more");
  EXPECT_EQ(with_top_k(std::numeric_limits<int>::min()), "top_k: is -2147483648, want 0 (all) or more");
}

TEST(SamplingParams, MaxTokensAtLeast1) {
  for (const int right : {1, std::numeric_limits<int>::max()}) EXPECT_EQ(with_max_tokens(right), "") << right;
  EXPECT_EQ(with_max_tokens(0), "max_tokens: is 0, want at least 1");
  EXPECT_EQ(with_max_tokens(-7), "max_tokens: is -7, want at least 1");
}

TEST(SamplingParams, StopTokenIdsAreInTheVocabulary) {
  EXPECT_EQ(with_stop_ids({0, 99, 99}), "");
  EXPECT_EQ(with_stop_ids({0, 100}), "stop_token_ids: has 100, want ids from 0 to 99");
  EXPECT_EQ(with_stop_ids({-1}), "stop_token_ids: has -1, want ids from 0 to 99");
  EXPECT_EQ(with_stop_ids({std::numeric_limits<TokenId>::max()}, int64_t{1} << 31), "");
}

TEST(SamplingParams, StopStringsAreSomeText) {
  const auto with_stop = [](std::vector<std::string> stop, bool detokenize = true) {
    return verdict([&](SamplingParams& p) {
      p.stop = std::move(stop);
      p.detokenize = detokenize;
    });
  };
  EXPECT_EQ(with_stop({"a", "a", "\n\n", "\U0001f600"}), "");
  EXPECT_EQ(with_stop(std::vector<std::string>(kMaxStops, "x")), "");
  EXPECT_EQ(with_stop(std::vector<std::string>(kMaxStops + 1, "x")), "stop: has 65 strings, want at most 64");
  EXPECT_EQ(with_stop({"a", ""}), "stop: has an empty string, want none");
  EXPECT_EQ(with_stop({"caf\xc3"}), "stop: has a string that is no UTF-8, want UTF-8: caf\ufffd");
  EXPECT_EQ(with_stop({std::string(1024, 'x')}), "");
  EXPECT_EQ(with_stop({std::string(1025, 'x')}), "stop: has a string of 1025 bytes, want at most 1024");
  EXPECT_EQ(with_stop({}, false), "");
  EXPECT_EQ(with_stop({"a"}, false), "stop: has strings, and detokenize is false, want it true to find them");
}

struct Refusal {
  void (*change)(SamplingParams&);
  std::string text;  // "": it is right
};

TEST(SamplingParams, LogprobsAndWhatChangesLogitsAreInTheirRanges) {
  using P = SamplingParams;
  const Refusal refusals[] = {
      {[](P& p) {
         p.allowed_token_ids = std::vector<TokenId>{0, 99};
       },
       ""},
      {[](P& p) { p.allowed_token_ids.emplace(); }, "allowed_token_ids: has no ids, want at least 1"},
      {[](P& p) { p.allowed_token_ids = std::vector<TokenId>{100}; },
       "allowed_token_ids: has 100, want ids from 0 to 99"},
      {[](P& p) { p.bad_words.assign(256, "a"); }, ""},
      {[](P& p) { p.bad_words.assign(257, "a"); }, "bad_words: has 257 strings, want at most 256"},
      {[](P& p) {
         p.bad_words = {"a", ""};
       },
       "bad_words: has an empty string, want none"},
      {[](P& p) { p.bad_words = {std::string(1025, 'a')}; },
       "bad_words: has a string of 1025 bytes, want at most 1024"},
      {[](P& p) { p.min_tokens = 64; }, ""},
      {[](P& p) { p.min_tokens = 65; }, "min_tokens: is 65, want 0 to max_tokens=64"},
      {[](P& p) { p.min_tokens = -1; }, "min_tokens: is -1, want 0 to max_tokens=64"},
      {[](P& p) { p.repetition_penalty = 0.001f; }, ""},
      {[](P& p) { p.repetition_penalty = 1000; }, ""},
      {[](P& p) { p.repetition_penalty = 0; }, "repetition_penalty: is 0, want 0.001 to 1000"},
      {[](P& p) { p.repetition_penalty = -1; }, "repetition_penalty: is -1, want 0.001 to 1000"},
      {[](P& p) { p.repetition_penalty = kInf; }, "repetition_penalty: is inf, want 0.001 to 1000"},
      {[](P& p) { p.repetition_penalty = kNan; }, "repetition_penalty: is nan, want 0.001 to 1000"},
      {[](P& p) { p.frequency_penalty = -2; }, ""},
      {[](P& p) { p.frequency_penalty = 2; }, ""},
      {[](P& p) { p.frequency_penalty = 2.5f; }, "frequency_penalty: is 2.5, want -2 to 2"},
      {[](P& p) { p.frequency_penalty = kNan; }, "frequency_penalty: is nan, want -2 to 2"},
      {[](P& p) { p.presence_penalty = 2; }, ""},
      {[](P& p) { p.presence_penalty = -2.5f; }, "presence_penalty: is -2.5, want -2 to 2"},
      {[](P& p) { p.presence_penalty = -kInf; }, "presence_penalty: is -inf, want -2 to 2"},
      {[](P& p) {
         p.logit_bias = {{0, -100.0f}, {99, 100.0f}};
       },
       ""},
      {[](P& p) {
         p.logit_bias = {{-1, 1.0f}};
       },
       "logit_bias: has -1, want ids from 0 to 99"},
      {[](P& p) {
         p.logit_bias = {{5, 100.5f}};
       },
       "logit_bias: has 100.5 for id 5, want -100 to 100"},
      {[](P& p) {
         p.logit_bias = {{5, kNan}};
       },
       "logit_bias: has nan for id 5, want -100 to 100"},
      {[](P& p) { p.logprobs = 0; }, ""},
      {[](P& p) { p.logprobs = -1; }, ""},
      {[](P& p) { p.logprobs = 64; }, ""},
      {[](P& p) { p.logprobs = 65; }, "logprobs: is 65, want 0 to 64, or -1 (all)"},
      {[](P& p) { p.logprobs = -2; }, "logprobs: is -2, want 0 to 64, or -1 (all)"},
      {[](P& p) { p.stop_token_ids.assign(1024, 1); }, ""},
      {[](P& p) { p.stop_token_ids.assign(1025, 1); }, "stop_token_ids: has 1025 ids, want at most 1024"}};
  for (const Refusal& refusal : refusals) EXPECT_EQ(verdict(refusal.change), refusal.text);
  const auto with_biases = [](SamplingParams& p) {
    for (TokenId id = 0; id < 1025; ++id) p.logit_bias[id] = 1;
  };
  EXPECT_EQ(verdict(with_biases, 2000), "logit_bias: has 1025 ids, want at most 1024");
}

TEST(SamplingParams, AnySeedIsRight) {
  for (const uint64_t seed : {uint64_t{0}, ~uint64_t{0}})
    EXPECT_EQ(verdict([=](SamplingParams& p) { p.seed = seed; }), "");
}

}  // namespace
}  // namespace nanovllm
