// Rows of a checkpoint into a weight, read back by products with unit vectors and by the bytes of the panels.
#include "ops/cpu/panels.h"
#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class StoreWeightTest : public OpTest {
 protected:
  // A weight of zeros.
  Weight make(DType dtype, int64_t out_features, int64_t in_features) {
    memory_ = DeviceBuffer(*ctx.ops.device, weight_bytes(ctx.ops, dtype, out_features, in_features), "test");
    return {memory_.data(), dtype, out_features, in_features};
  }

  // Element [n, k], read as the op reads it.
  float read(const Weight& w, int64_t n, int64_t k) {
    const Floats x({1, w.in_features}), out = unwritten({1, w.out_features});
    x.tensor().ptr<float>()[k] = 1;
    linear(ctx, {.out = out, .x = x, .weight = w});
    return out[size_t(n)];
  }

 private:
  DeviceBuffer memory_;
};
INSTANTIATE_OP_TEST(StoreWeightTest);

// The CPU's own layout.
class StoreWeightPanels : public StoreWeightTest {
 protected:
  // The bits of place [k][lane] of a panel.
  template <class T>
  T cell(const Weight& w, int64_t n, int64_t k) {
    const T* panel = static_cast<const T*>(w.data) + n / cpu::kPanelWidth * w.in_features * cpu::kPanelWidth;
    return panel[k * cpu::kPanelWidth + cpu::line_position(w.dtype, int(n % cpu::kPanelWidth))];
  }
};
INSTANTIATE_TEST_SUITE_P(Sets, StoreWeightPanels, testing::ValuesIn(instruction_sets()),
                         [](const auto& info) { return info.param; });

// Rows as a mapped file has them: any alignment, any row stride.
class FileRows {
 public:
  FileRows(DType dtype, int64_t num_rows, int64_t in_features, int64_t row_stride, size_t offset)
      : bytes_(size_t(num_rows * row_stride) * dtype_bytes(dtype) + offset, std::byte{0x3C}),
        offset_(offset),
        rows_{bytes_.data() + offset, dtype, num_rows, in_features, row_stride} {}

  void set(int64_t row, int64_t k, uint32_t bits) {
    const size_t width = dtype_bytes(rows_.dtype);
    std::memcpy(bytes_.data() + offset_ + size_t(row * rows_.row_stride + k) * width, &bits, width);
  }
  const WeightRows& rows() const { return rows_; }

 private:
  std::vector<std::byte> bytes_;
  size_t offset_;
  WeightRows rows_;
};

// A value that every dtype holds exactly, another for each element.
float value_at(int64_t n, int64_t k) {
  return float(n % 128 + 1) * (k % 2 ? -1.0f : 1.0f) * std::ldexp(1.0f, -int(k % 5));
}

uint32_t bits_in(DType dtype, float value) {
  return dtype == DType::kF32   ? std::bit_cast<uint32_t>(value)
         : dtype == DType::kF16 ? float_to_f16(value)
                                : float_to_bf16(value);
}

FileRows file_of(DType dtype, int64_t first_row, int64_t num_rows, int64_t in_features, int64_t stride,
                 size_t offset) {
  FileRows file(dtype, num_rows, in_features, stride, offset);
  for (int64_t n = 0; n < num_rows; ++n)
    for (int64_t k = 0; k < in_features; ++k) file.set(n, k, bits_in(dtype, value_at(first_row + n, k)));
  return file;
}

TEST_P(StoreWeightTest, EveryTypeFromAnyAlignment) {
  for (DType dtype : kWeightTypes) {
    for (size_t offset : {0, 1, 2, 3}) {
      const Weight w = make(dtype, 70, 9);
      const FileRows file = file_of(dtype, 0, 70, 9, 11, offset);  // two more elements between rows
      store_weight(ctx, {.weight = w, .rows = file.rows()});
      for (int64_t k = 0; k < 9; ++k)
        for (int64_t n = 0; n < 70; ++n)
          ASSERT_EQ(read(w, n, k), value_at(n, k))
              << dtype_name(dtype) << " +" << offset << " [" << n << ", " << k << "]";
    }
  }
}

// Every 16-bit pattern is copied as it is, or widened exactly: infinities, subnormals and NaN too.
TEST_P(StoreWeightPanels, EveryBitPatternSurvives) {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    FileRows file(dtype, 256, 256, 256, 1);
    for (int64_t i = 0; i < 65536; ++i) file.set(i / 256, i % 256, uint32_t(i));
    const Weight same = make(dtype, 256, 256);
    store_weight(ctx, {.weight = same, .rows = file.rows()});
    for (int64_t i = 0; i < 65536; ++i) ASSERT_EQ(cell<uint16_t>(same, i / 256, i % 256), i);
    const Weight wide = make(DType::kF32, 256, 256);
    store_weight(ctx, {.weight = wide, .rows = file.rows()});
    for (int64_t i = 0; i < 65536; ++i) {
      const float want = dtype == DType::kF16 ? f16_to_float(uint16_t(i)) : bf16_to_float(uint16_t(i));
      const float got = cell<float>(wide, i / 256, i % 256);
      if (std::isnan(want))
        ASSERT_TRUE(std::isnan(got)) << i;
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << i;
    }
  }
}

// Parts that begin and end inside a panel, as q, k and v in one weight do: each fills its rows and no other.
TEST_P(StoreWeightTest, RowRangesFillTheirRowsOnly) {
  for (DType source : kWeightTypes) {
    for (DType dtype : {source, DType::kF32}) {
      const Weight w = make(dtype, 101, 7);
      const std::pair<int64_t, int64_t> parts[] = {
          {40, 50}, {0, 5}, {95, 6}, {5, 35}, {90, 5}};  // first row, rows
      std::vector<bool> filled(101, false);
      for (const auto& [first, count] : parts) {
        const FileRows file = file_of(source, first, count, 7, 7, 1);
        store_weight(ctx, {.weight = w, .rows = file.rows(), .first_row = first});
        std::fill_n(filled.begin() + first, count, true);
        for (int64_t n = 0; n < 101; ++n)
          for (int64_t k : {0, 6})
            ASSERT_EQ(read(w, n, k), filled[size_t(n)] ? value_at(n, k) : 0.0f)
                << dtype_name(source) << " as " << dtype_name(dtype) << " row " << n << " after part "
                << first;
      }
    }
  }
}

TEST_P(StoreWeightTest, NoRowsAreNoHarm) {
  const Weight w = make(DType::kF32, 32, 4);
  store_weight(ctx, {.weight = w, .rows = {nullptr, DType::kF32, 0, 4, 4}, .first_row = 32});
  EXPECT_EQ(read(w, 31, 3), 0.0f);
}

TEST_P(StoreWeightPanels, SurplusLanesOfTheLastPanelStayZero) {
  const auto expect_zeros = [this]<class T>(DType dtype, T) {
    const Weight w = make(dtype, 37, 6);
    const FileRows file = file_of(dtype, 0, 37, 6, 6, 0);
    store_weight(ctx, {.weight = w, .rows = file.rows()});
    for (int64_t n = 37; n < 64; ++n)
      for (int64_t k = 0; k < 6; ++k) ASSERT_EQ(cell<T>(w, n, k), T{}) << dtype_name(dtype) << " row " << n;
  };
  expect_zeros(DType::kF32, float{});
  expect_zeros(DType::kF16, uint16_t{});
  expect_zeros(DType::kBF16, uint16_t{});
}

TEST_P(StoreWeightPanels, BytesAreWholePanels) {
  EXPECT_EQ(weight_bytes(ctx.ops, DType::kBF16, 1, 10), 32u * 10 * 2);
  EXPECT_EQ(weight_bytes(ctx.ops, DType::kF32, 32, 10), 32u * 10 * 4);
  EXPECT_EQ(weight_bytes(ctx.ops, DType::kF16, 33, 10), 64u * 10 * 2);
  EXPECT_EQ(weight_bytes(ctx.ops, DType::kBF16, 151936, 65536), size_t{151936} * 65536 * 2);
}

}  // namespace
}  // namespace nanovllm
