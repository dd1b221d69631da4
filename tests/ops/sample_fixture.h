// Rows to sample from, and the definition of ops/sample.h written out once more, plainly: sort, cut, draw.
#pragma once

#include "ops/ops_fixture.h"

namespace nanovllm::test {

struct SampleCase {
  std::vector<float> logits;
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  uint64_t seed = 1;
  int32_t position = 0;
  int32_t sample_index = 0;
};

// All rows must have the same number of logits. num_valid_tokens 0: all of them.
std::vector<int32_t> sample_rows(Context& ctx, const std::vector<SampleCase>& rows,
                                 int64_t num_valid_tokens = 0);

int32_t sample_one(Context& ctx, const SampleCase& row);

struct Kept {
  float logit;
  int32_t id;
};

// What the filters keep, largest first. The comparison with top_p is exact: top_p = m / 2^e, in 128-bit
// integers.
std::vector<Kept> kept_by_definition(const SampleCase& row);

// A draw from these ids of the row, in any order.
int32_t draw_by_definition(const SampleCase& row, std::vector<Kept> kept);

int32_t sample_by_definition(const SampleCase& row);

}  // namespace nanovllm::test
