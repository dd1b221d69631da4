#include "base/file.h"

#include "support.h"

namespace nanovllm {
namespace {

TEST(File, MapsTheWholeFile) {
  const test::ScratchFolder folder;
  const MappedFile file(folder.write("a", std::string_view("x\0y", 3)));
  EXPECT_EQ(file.text(), std::string_view("x\0y", 3));
}

TEST(File, AnEmptyFileIsAnEmptySpan) {
  const test::ScratchFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("a", "")).bytes().empty());
}

TEST(File, MovingKeepsTheMapping) {
  const test::ScratchFolder folder;
  MappedFile first(folder.write("a", "hello"));
  MappedFile second(std::move(first));
  first = MappedFile(folder.write("b", "other"));
  EXPECT_EQ(second.text(), "hello");
  EXPECT_EQ(first.text(), "other");
}

TEST(File, ErrorsNamePathAndReason) {
  const test::ScratchFolder folder;
  test::expect_error(ErrorKind::kDevice, "none: cannot open: No such file",
                     [&] { MappedFile(folder / "none"); });
  test::expect_error(ErrorKind::kDevice, "is not a regular file", [&] { MappedFile(folder.path()); });
  folder.write("a", "hello");
  test::expect_error(ErrorKind::kDevice, "has 5 bytes, want at most 4", [&] { read_file(folder / "a", 4); });
  EXPECT_EQ(read_file(folder / "a", 5), "hello");
}

}  // namespace
}  // namespace nanovllm
