// Weights larger than what is on its way at once.
#include "ops/cuda/device_values.h"

namespace nanovllm {
namespace {

using namespace test;

class UploadsTest : public MmaTest {};
INSTANTIATE_MMA_TEST(UploadsTest);

// 40 MB in three parts, rows apart and at an odd address; the memory that they came from is used anew at once.
TEST_P(UploadsTest, EveryRowArrivesThoughItsMemoryIsUsedAnew) {
  constexpr int64_t kRows = 4000, kColumns = 5000, kStride = 5003;
  const DeviceValues weight(dtype(), {kRows, kColumns});
  const auto word = [](int64_t row, int64_t column) { return uint16_t(row * 31 + column * 7 + row / 2113); };
  std::vector<std::byte> file(size_t(kRows * kStride) * 2 + 1);
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, 3000}, {3001, 999}}) {
    for (int64_t r = 0; r < count; ++r)
      for (int64_t c = 0; c < kColumns; ++c) {
        const uint16_t value = word(first + r, c);
        std::memcpy(&file[1 + size_t(r * kStride + c) * 2], &value, 2);
      }
    store_weight(ctx(), {.weight = weight.weight(),
                         .rows = {file.data() + 1, dtype(), count, kColumns, kStride},
                         .first_row = first});
    std::memset(file.data(), 0xEE, file.size());
  }
  const std::vector<std::byte> got = weight.bytes();
  int64_t num_wrong = 0;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kColumns; ++c) {
      uint16_t value = 0;
      std::memcpy(&value, &got[size_t(r * kColumns + c) * 2], 2);
      num_wrong += value != word(r, c);
    }
  EXPECT_EQ(num_wrong, 0);
}

}  // namespace
}  // namespace nanovllm
