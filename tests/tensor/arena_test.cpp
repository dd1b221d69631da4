#include "tensor/arena.h"

#include <cstring>

#include "support.h"

namespace nanovllm {
namespace {

uintptr_t address(const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.data); }

TEST(Arena, EveryTensorBeginsAt64Bytes) {
  Arena arena(host_device(), 4096);
  for (int64_t n : {1, 3, 16, 17, 100}) {
    const Tensor t = arena.make(DType::kF32, {n});
    EXPECT_EQ(address(t) % Arena::kAlignment, 0u) << n;
    EXPECT_EQ(t.shape[0], n);
    EXPECT_TRUE(t.contiguous());
  }
}

TEST(Arena, TensorsDoNotOverlap) {
  Arena arena(host_device(), 4096);
  const Tensor first = arena.make(DType::kBF16, {3, 5}), second = arena.make(DType::kF32, {2, 2, 2});
  EXPECT_GE(address(second), address(first) + 30);
  std::memset(first.data, 0xFF, 30);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(second.ptr<float>()[i], 0.0f);
}

TEST(Arena, BytesAreRoundedUpToTheAlignment) {
  EXPECT_EQ(Arena::bytes_of(DType::kF32, {0}), 0u);
  EXPECT_EQ(Arena::bytes_of(DType::kF32, {1}), 64u);
  EXPECT_EQ(Arena::bytes_of(DType::kF32, {16}), 64u);
  EXPECT_EQ(Arena::bytes_of(DType::kF32, {17}), 128u);
  EXPECT_EQ(Arena::bytes_of(DType::kF16, {33}), 128u);
  EXPECT_EQ(Arena::bytes_of(DType::kBF16, {3, 5, 7}), 256u);
  EXPECT_EQ(Arena::bytes_of(DType::kI32, {}), 64u);
  EXPECT_EQ(Arena::bytes_of(DType::kF32, {int64_t{1} << 20, 1 << 15}), size_t{1} << 37);
}

TEST(Arena, AScopeGivesBackWhatWasTakenSinceItBegan) {
  Arena arena(host_device(), 1024);
  const Tensor kept = arena.make(DType::kF32, {16});
  uintptr_t inner = 0;
  {
    const Arena::Scope outer_scope(arena);
    inner = address(arena.make(DType::kF32, {32}));
    {
      const Arena::Scope inner_scope(arena);
      arena.make(DType::kF32, {64});
      EXPECT_EQ(arena.used(), 64u + 128u + 256u);
    }
    EXPECT_EQ(arena.used(), 64u + 128u);
  }
  EXPECT_EQ(arena.used(), 64u);
  EXPECT_EQ(address(arena.make(DType::kF32, {1})), inner);
  EXPECT_NE(inner, address(kept));
}

TEST(Arena, PeakIsTheMostThatWasEverInUse) {
  Arena arena(host_device(), 1024);
  EXPECT_EQ(arena.peak(), 0u);
  {
    const Arena::Scope scope(arena);
    arena.make(DType::kF32, {100});
  }
  arena.make(DType::kF32, {1});
  EXPECT_EQ(arena.used(), 64u);
  EXPECT_EQ(arena.peak(), 448u);
}

TEST(Arena, CanBeFilledToTheLastByte) {
  Arena arena(host_device(), 128);
  arena.make(DType::kF32, {16});
  arena.make(DType::kF32, {16});
  EXPECT_EQ(arena.used(), 128u);
  arena.make(DType::kF32, {0});
}

TEST(ArenaDeathTest, ALargerStepThanPlannedIsABug) {
  Arena arena(host_device(), 128);
  arena.make(DType::kF32, {16});
  EXPECT_DEATH(arena.make(DType::kF32, {17}), "bytes <= capacity_ - used_");
}

TEST(Arena, MeasuringHoldsNoMemoryAndNeverEnds) {
  Arena arena = Arena::measuring();
  const Tensor a = arena.make(DType::kF32, {int64_t{1} << 20, 1 << 20}), b = arena.make(DType::kF32, {1});
  EXPECT_TRUE(a.defined() && b.defined());
  EXPECT_NE(a.data, b.data);
  EXPECT_EQ(arena.used(), (size_t{1} << 42) + 64);
  EXPECT_EQ(arena.peak(), arena.used());
}

TEST(Arena, AnEmptyTensorIsStillATensor) {
  Arena none(host_device(), 0), some(host_device(), 64);
  EXPECT_TRUE(none.make(DType::kF32, {0, 8}).defined());
  EXPECT_TRUE(some.make(DType::kF32, {0, 8}).defined());
}

}  // namespace
}  // namespace nanovllm
