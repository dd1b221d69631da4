// What the tests of all ops share: a context for each instruction set and, where there is a GPU, for CUDA in float32, arrays with their tensors, errors
// measured.
//
// An op is tested against the double-precision definition in its header, on every instruction set that this
// machine runs (OpTest), and its bits are compared between them (same_bits): the bounds are argued beside
// each test from the op's definition, u = 2^-24 being the largest relative error of one rounding to float32.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"
#include "parallel/communicator.h"
#include "support.h"

namespace nanovllm::test {

inline constexpr double kU = 0x1p-24;
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A context with all it points to.
struct OpContext {
  explicit OpContext(const OpTable& ops, int num_threads = 2, size_t arena_bytes = size_t{1} << 20);
  ~OpContext();

  ThreadPool threads;
  Arena arena;
  SingleRank comm;
  std::unique_ptr<void, void (*)(void*)> state;
  Context ctx;
};

std::vector<std::string> instruction_sets();
// These, and "cuda" where there is a GPU: in float32 it keeps the CPU's definitions to the bit.
std::vector<std::string> backends();
// "cuda": its tensors lie where tests read and write them too, and each op is complete on return.
const OpTable& ops_named(const std::string& backend);

// The memory of Array: the host's, and where there is a GPU, the GPU's to read and write too.
std::pmr::memory_resource& shared_memory();

// A test that runs on every backend: TEST_P with INSTANTIATE_OP_TEST.
class OpTest : public testing::TestWithParam<std::string> {
 protected:
  OpContext op{ops_named(GetParam())};
  Context& ctx = op.ctx;
};
#define INSTANTIATE_OP_TEST(suite)                                                     \
  INSTANTIATE_TEST_SUITE_P(Sets, suite, testing::ValuesIn(nanovllm::test::backends()), \
                           [](const auto& info) { return info.param; })

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  return DType::kBF16;
}

// Memory with its tensor. Copies are deep.
template <class T>
class Array {
 public:
  Array(const Array& other) : shape_(other.shape_), values_(other.values_, &shared_memory()) {}
  Array(Array&& other) = default;
  Array& operator=(const Array& other) = default;
  explicit Array(std::initializer_list<int64_t> shape, T fill = T{})
      : shape_(Tensor::view(nullptr, dtype_of<T>(), shape)),
        values_(size_t(std::max<int64_t>(1, shape_.num_elements())), fill, &shared_memory()) {
  }  // never null, even if empty
  Array(std::initializer_list<T> values, std::nullptr_t) : Array({int64_t(values.size())}) {
    std::copy(values.begin(), values.end(), values_.begin());
  }

  Tensor tensor() const {
    Tensor t = shape_;
    t.data = const_cast<T*>(values_.data());
    return t;
  }
  operator Tensor() const { return tensor(); }
  size_t size() const { return size_t(shape_.num_elements()); }
  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  T& operator[](size_t i) { return values_[i]; }
  const T& operator[](size_t i) const { return values_[i]; }
  std::span<const T> span() const { return {values_.data(), size()}; }
  std::span<const T> row(int64_t index) const {  // element `index` of the first dimension
    return span().subspan(size_t(index * shape_.stride[0]), size_t(shape_.stride[0]));
  }

 private:
  Tensor shape_;  // without data
  std::pmr::vector<T> values_;
};
extern template class Array<float>;
extern template class Array<int32_t>;
using Floats = Array<float>;
using Ints = Array<int32_t>;

inline Ints ints(std::initializer_list<int32_t> values) { return Ints(values, nullptr); }
inline Floats floats(std::initializer_list<float> values) { return Floats(values, nullptr); }

// An output that must be written: what an op leaves out is seen.
inline Floats unwritten(std::initializer_list<int64_t> shape) { return Floats(shape, kNan); }

// Uniform in (-scale, scale); the same on every machine.
Floats random_floats(std::initializer_list<int64_t> shape, uint32_t seed, float scale = 1);

std::vector<double> doubles(std::span<const float> values);

// A weight in the backend's layout, and the values that its dtype can hold.
struct StoredWeight {
  StoredWeight(Context& ctx, DType dtype, const Floats& rows);

  DeviceBuffer memory;
  Weight weight;
  std::vector<double> values;  // [out_features, in_features]
};

inline constexpr DType kWeightTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

// The distance between the float32 values around x.
double ulp(double x);

// The largest error seen, in the unit of each value's bound; a NaN is infinitely wrong. At the end it is
// recorded in the test's XML, also if it is within the limit, and must not exceed the limit.
class WorstError {
 public:
  explicit WorstError(std::string name, double limit = 1) : name_(std::move(name)), limit_(limit) {}
  ~WorstError();
  WorstError(const WorstError&) = delete;
  WorstError& operator=(const WorstError&) = delete;

  void add(double got, double want, double unit, const char* what = "", int64_t index = 0);

 private:
  std::string name_;
  double limit_;
  double worst_ = 0;
  std::string where_;
};

void expect_ulps(WorstError& worst, std::span<const float> got, const std::vector<double>& want,
                 const char* what = "");

// Bit for bit; says where the first difference is.
testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b);

// The fixed tree of ops/rms_norm.h: lanes i and i + 8, i and i + 4, i and i + 2, i and i + 1.
float sum_of_lanes(std::array<float, 16> lanes);

// Runs body(ctx) → Floats on every instruction set: all must give the same bits, which are returned.
class EverySet {
 public:
  explicit EverySet(int num_threads = 1);

  template <class Body>
  Floats same_bits_from_all(const std::string& what, Body&& body) {
    const Floats want = body(contexts_.back()->ctx);  // portable: the definition of the others
    for (size_t i = 0; i + 1 < contexts_.size(); ++i)
      EXPECT_TRUE(same_bits(body(contexts_[i]->ctx).span(), want.span()))
          << what << " on " << contexts_[i]->ctx.ops.instruction_set;
    return want;
  }

 private:
  std::vector<std::unique_ptr<OpContext>> contexts_;
};

// Expects Error of this kind with exactly this text.
void expect_message(ErrorKind kind, const std::string& text, const std::function<void()>& body);

}  // namespace nanovllm::test
