#include "engine/metrics.h"

#include <algorithm>

namespace nanovllm {

void Histogram::observe(double value) {
  const auto bound = std::lower_bound(upper_bounds_.begin(), upper_bounds_.end(), value);
  ++counts_[size_t(bound - upper_bounds_.begin())];
  sum_ += value;
  ++count_;
}

}  // namespace nanovllm
