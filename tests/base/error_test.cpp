#include "base/error.h"

#include "base/assert.h"
#include "support.h"

namespace nanovllm {
namespace {

TEST(Error, JoinsItsParts) {
  test::expect_error(ErrorKind::kConfig, "rms_norm: weight is [2], want [hidden_size=3]", [] {
    fail(ErrorKind::kConfig, "rms_norm: weight is [", 2, "], want [hidden_size=", 3, "]");
  });
}

TEST(ErrorDeathTest, AssertAbortsAndNamesTheCondition) {
  EXPECT_DEATH(ASSERT(1 + 1 == 3), "bug: 1 \\+ 1 == 3 does not hold");
}

}  // namespace
}  // namespace nanovllm
