// The arithmetic of a draw (ops/draw.h), and how far its probabilities are from softmax.
#include "ops/draw.h"

#include <algorithm>

#include "base/random.h"
#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

TEST(Draw, PartOfIsTheUpperHalfOfTheProduct) {
  const uint64_t totals[] = {
      0,           1, 2, 3, 0xFFFFFFFF, uint64_t{1} << 32, uint64_t{1} << 51, (uint64_t{1} << 62) + 12345,
      ~uint64_t{0}};
  for (const uint64_t total : totals)
    for (uint32_t i = 0; i < 1000; ++i) {
      const Philox4x32 bits = philox(total, {i, 0, 0, 0});
      for (const auto& [high, low] :
           {std::pair{bits[0], bits[1]}, {0u, bits[2]}, {bits[3], 0u}, {~0u, ~0u}}) {
        const unsigned __int128 product = (unsigned __int128)(total) * (uint64_t(high) << 32 | low);
        ASSERT_EQ(part_of(total, high, low), uint64_t(product >> 64)) << total << " " << high << " " << low;
      }
    }
  EXPECT_EQ(part_of(7, ~0u, ~0u), 6u);  // never the whole
}

TEST(Draw, WeightsOfTheLargestArePowersOfTwo) {
  EXPECT_EQ(weight_in_chunk(0), uint32_t{1} << 30);
  EXPECT_EQ(weight_in_row(0), uint64_t{1} << 32);
  EXPECT_EQ(weight_of_chunk(uint64_t{1} << 41, 0),
            uint64_t{1} << 51);  // a chunk of nothing but largest logits
  for (const float below : {-100.0f, -1e30f, -kInfinity}) {
    EXPECT_EQ(weight_in_chunk(below), 0u);
    EXPECT_EQ(weight_in_row(below), 0u);
    EXPECT_EQ(weight_of_chunk(uint64_t{1} << 41, below), 0u);
  }
}

// The probabilities that a draw really has, from the integers, against softmax in double precision. A weight is off by 2 ULP of exp
// and three roundings of its argument, which is at most 40 here, and rounded down by less than 2^-30 of its chunk's largest; so is a
// chunk's by 2^-40 of the row's. Relative to softmax: less than 2^-22 + 40 2^-22 and the parts that rounding down takes.
TEST(Draw, ProbabilitiesAreThoseOfSoftmax) {
  constexpr int kCount = 20000;
  for (const float scale : {0.01f, 1.0f, 20.0f})
    for (const float temperature : {0.3f, 1.0f, 2.0f}) {
      const Floats logits = random_floats({kCount}, 7, scale);
      const float inverse = 1.0f / temperature, *values = logits.data();
      const float max = *std::max_element(values, values + kCount);
      double softmax_sum = 0;
      for (int id = 0; id < kCount; ++id)
        softmax_sum += std::exp((double(values[id]) - double(max)) / double(temperature));
      std::vector<double> chunk_weights, chunk_sums;
      std::vector<float> chunk_max;
      double total = 0;
      for (int first = 0; first < kCount; first += kDrawChunk) {
        const int end = std::min(first + kDrawChunk, kCount);
        chunk_max.push_back(*std::max_element(values + first, values + end));
        uint64_t sum = 0;
        for (int id = first; id < end; ++id)
          sum += weight_in_chunk(below_max(values[id], chunk_max.back(), inverse));
        chunk_sums.push_back(double(sum));
        chunk_weights.push_back(double(weight_of_chunk(sum, below_max(chunk_max.back(), max, inverse))));
        total += chunk_weights.back();
      }
      WorstError worst("probability_error_of_bound", 1);
      for (int id = 0; id < kCount; ++id) {
        const size_t c = size_t(id / kDrawChunk);
        const double in_chunk = weight_in_chunk(below_max(values[id], chunk_max[c], inverse)) / chunk_sums[c],
                     got = in_chunk * chunk_weights[c] / total;
        const double want = std::exp((double(values[id]) - double(max)) / double(temperature)) / softmax_sum;
        const double largest =
            std::exp((double(chunk_max[c]) - double(max)) / double(temperature)) / softmax_sum;
        worst.add(got, want, 1e-5 * want + 0x1p-29 * largest, "id", int64_t(id));
      }
    }
}

}  // namespace
}  // namespace nanovllm
