// Against Hugging Face transformers' logits processors: tests/golden/sampling.json, made by tools/make_sampling_reference.py.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "ops/edit_logits.h"
#include "ops/sample_fixture.h"

namespace nanovllm {
namespace {

using namespace test;
using nlohmann::json;

class SampleReference : public OpTest {
 protected:
  SampleReference() : reference_(json::parse(std::ifstream(golden("sampling.json")))) {}

  // The row's logits as edit_logits leaves them.
  std::vector<float> penalized(const json& row, float penalty) {
    Floats logits = floats_of(row["logits"]);
    const std::set<int32_t> unique = row["token_ids"].get<std::set<int32_t>>();
    Ints rows({1}), begins({2}), ids({int64_t(unique.size())});
    Floats penalties({1}), addends({int64_t(unique.size())});
    penalties[0] = penalty;
    begins[1] = int32_t(unique.size());
    std::transform(unique.begin(), unique.end(), ids.data(), [](int32_t id) { return ~id; });
    edit_logits(ctx, {.logits = logits,
                      .rows = rows,
                      .begins = begins,
                      .penalties = penalties,
                      .ids = ids,
                      .addends = addends});
    return {logits.data(), logits.data() + logits.size()};
  }
  static Floats floats_of(const json& list) {
    Floats values({1, int64_t(list.size())});
    std::transform(list.begin(), list.end(), values.data(), [](const json& x) { return x.get<float>(); });
    return values;
  }

  json reference_;
};
INSTANTIATE_OP_TEST(SampleReference);

// Both round a quotient or a product once.
TEST_P(SampleReference, RepetitionPenaltyHasItsBits) {
  int num_cases = 0;
  for (const json& c : reference_["cases"]) {
    if (c["penalized"].is_null()) continue;
    ++num_cases;
    const std::vector<float> got =
        penalized(reference_["rows"][c["row"].get<size_t>()], c["repetition_penalty"].get<float>());
    for (size_t id = 0; id < got.size(); ++id)
      ASSERT_EQ(got[id], c["penalized"][id].get<float>()) << c["row"] << ", id " << id;
  }
  EXPECT_GE(num_cases, 9);
}

// The filters keep the same tokens, and the softmax of what is left is the same within what float32 makes of it: 2^-20 for a
// quotient by the temperature of up to 70, rounded there and here.
TEST_P(SampleReference, FiltersKeepTheSameTokens) {
  WorstError worst("probability_error_of_bound", 1);
  for (const json& c : reference_["cases"]) {
    SampleCase row{
        .logits = penalized(reference_["rows"][c["row"].get<size_t>()], c["repetition_penalty"].get<float>()),
        .temperature = c["temperature"].get<float>(),
        .top_k = c["top_k"].get<int32_t>(),
        .top_p = c["top_p"].get<float>(),
        .min_p = c["min_p"].get<float>()};
    const auto want = c["kept"].get<std::vector<int32_t>>();
    std::vector<Kept> kept = kept_by_definition(row);
    std::ranges::sort(kept, {}, &Kept::id);
    std::vector<int32_t> ids;
    double sum = 0;
    const float max = *std::ranges::max_element(row.logits);
    const auto weight = [&](const Kept& k) {
      return std::exp((double(k.logit) - double(max)) / double(row.temperature));
    };
    for (const Kept& k : kept) ids.push_back(k.id), sum += weight(k);
    ASSERT_EQ(ids, want) << c.dump().substr(0, 150);
    for (size_t i = 0; i < kept.size(); ++i)
      worst.add(weight(kept[i]) / sum, c["probabilities"][i].get<double>(), 0x1p-16 * weight(kept[i]) / sum,
                "id", ids[i]);

    std::vector<SampleCase> rows(2000, row);
    for (size_t r = 0; r < rows.size(); ++r) rows[r].position = int32_t(r);
    for (const int32_t id : sample_rows(ctx, rows)) ASSERT_TRUE(std::ranges::binary_search(want, id)) << id;
  }
}

}  // namespace
}  // namespace nanovllm
