#include "checkpoint/printable.h"

#include "support.h"

namespace nanovllm {
namespace {

TEST(Printable, LeavesUsualNamesAlone) {
  EXPECT_EQ(printable("model.layers.0.mlp.down_proj.weight"), "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(printable("größe"), "größe");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, CutsLongNamesAndMarksTheCut) {
  EXPECT_EQ(printable(std::string(120, 'x')), std::string(120, 'x'));
  std::string cut(120, 'x');
  cut += "...";
  EXPECT_EQ(printable(std::string(121, 'x')), cut);
}

TEST(Printable, ReplacesWhatATerminalWouldObey) {
  EXPECT_EQ(printable(std::string_view("a\n\x1B[2J\0\x7F", 8)), "a??[2J??");
  EXPECT_EQ(printable("a\xFFz"), "a\uFFFDz");
}

TEST(Printable, FirstFewNamesAndTheCount) {
  EXPECT_EQ(first_few({"a"}), "a");
  EXPECT_EQ(first_few({"a", "b", "c", "d", "e"}), "a, b, c, d, e");
  EXPECT_EQ(first_few({"a", "b", "c", "d", "e", "f", "g"}), "a, b, c, d, e and 2 more");
}

}  // namespace
}  // namespace nanovllm
