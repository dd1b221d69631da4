#include "checkpoint/checkpoint.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "safetensors_writer.h"
#include "support.h"

namespace nanovllm {
namespace {

using test::expect_error;
using test::named_tensor;
using test::ScratchFolder;
using test::write_safetensors;

test::NamedTensor bytes_tensor(const std::string& name, std::string_view bytes) {
  return {name, "BF16", {int64_t(bytes.size() / 2)}, std::string(bytes)};
}

std::string_view text(const CheckpointTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

// A folder with two shards: 1.safetensors holds a and b, 2.safetensors holds c.
struct ShardedFolder {
  explicit ShardedFolder(
      std::string_view weight_map = R"("a":"1.safetensors","b":"1.safetensors","c":"2.safetensors")") {
    write_safetensors(folder / "1.safetensors", {bytes_tensor("a", "aa"), bytes_tensor("b", "bbbb")});
    write_safetensors(folder / "2.safetensors", {bytes_tensor("c", "cc")});
    folder.write("model.safetensors.index.json",
                 std::string(R"({"metadata":{"total_size":8},"weight_map":{)").append(weight_map) + "}}");
  }
  Checkpoint open() const { return open_checkpoint(folder.path()); }

  ScratchFolder folder;
};

void expect_broken(const ShardedFolder& sharded, std::string_view part) {
  expect_error(ErrorKind::kCheckpoint, "model.safetensors.index.json: ", [&] { sharded.open(); });
  expect_error(ErrorKind::kCheckpoint, part, [&] { sharded.open(); });
}

TEST(Checkpoint, FindsTensorsByName) {
  const ScratchFolder folder;
  write_safetensors(folder / "model.safetensors", {bytes_tensor("b", "bbbb"), bytes_tensor("a", "aa")});
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string_view>{"a", "b"}));
  const CheckpointTensor* b = checkpoint.find("b");
  ASSERT_TRUE(b);
  EXPECT_EQ(b->name, "b");
  EXPECT_EQ(b->dtype, DType::kBF16);
  EXPECT_EQ(b->shape, std::vector<int64_t>{2});
  EXPECT_EQ(b->file, folder / "model.safetensors");
  EXPECT_EQ(text(*b), "bbbb");
  EXPECT_EQ(checkpoint.find(""), nullptr);
  EXPECT_EQ(checkpoint.find("aa"), nullptr);
  EXPECT_EQ(checkpoint.find("c"), nullptr);
}

TEST(Checkpoint, MovingKeepsNamesAndData) {
  const ScratchFolder folder;
  write_safetensors(folder / "model.safetensors", {bytes_tensor("a", "aa")});
  Checkpoint first = open_checkpoint(folder.path());
  const std::vector<std::string_view> names = first.names();
  const Checkpoint second = std::move(first);
  EXPECT_EQ(names, (std::vector<std::string_view>{"a"}));
  EXPECT_EQ(text(*second.find("a")), "aa");
}

TEST(Checkpoint, MixedDTypesAreKeptPerTensor) {
  const ScratchFolder folder;
  write_safetensors(folder / "model.safetensors", {named_tensor<float>("norm", "F32", {1}, {70000}),
                                                   named_tensor<uint16_t>("w", "F16", {1}, {1})});
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  EXPECT_EQ(checkpoint.find("norm")->dtype, DType::kF32);
  EXPECT_EQ(checkpoint.find("w")->dtype, DType::kF16);
}

TEST(Checkpoint, ADTypeWeCannotReadIsRefusedWhenAskedFor) {
  const ScratchFolder folder;
  write_safetensors(folder / "model.safetensors",
                    {named_tensor<uint8_t>("w", "F8_E4M3", {2}, {1, 2}),
                     named_tensor<uint8_t>("x", "", {4}, {1, 2, 3, 4}), bytes_tensor("a", "aa")});
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string_view>{"a", "w", "x"}));
  EXPECT_TRUE(checkpoint.find("a"));
  expect_error(ErrorKind::kUnsupported,
               "model.safetensors: w is F8_E4M3, want F32, F16 or BF16 (convert the checkpoint)",
               [&] { checkpoint.find("w"); });
  expect_error(ErrorKind::kUnsupported, "x is , want F32", [&] { checkpoint.find("x"); });
}

TEST(Checkpoint, TheSingleFileGoesBeforeTheIndex) {
  const ShardedFolder sharded;
  write_safetensors(sharded.folder / "model.safetensors", {bytes_tensor("single", "ss")});
  EXPECT_EQ(sharded.open().names(), (std::vector<std::string_view>{"single"}));
}

TEST(Checkpoint, ADamagedFileIsNamed) {
  const ScratchFolder folder;
  folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  expect_error(ErrorKind::kCheckpoint, (folder / "model.safetensors").string() + ": is a Git LFS pointer",
               [&] { open_checkpoint(folder.path()); });
}

TEST(Checkpoint, FoldersThatAreNone) {
  const ScratchFolder folder;
  expect_error(ErrorKind::kCheckpoint, "/none: no such folder, want a model folder",
               [&] { open_checkpoint(folder / "none"); });
  expect_error(ErrorKind::kCheckpoint, "/a.safetensors: is a file, want the model folder that holds it",
               [&] { open_checkpoint(folder.write("a.safetensors", "x")); });
  expect_error(ErrorKind::kCheckpoint, ": cannot read: File name too long",
               [&] { open_checkpoint(folder / std::string(300, 'x')); });
}

TEST(Checkpoint, AFolderWithoutWeightsSaysWhatItHolds) {
  const ScratchFolder folder;
  folder.write("config.json", "{}");
  expect_error(ErrorKind::kCheckpoint, ": no weights, want model.safetensors or model.safetensors.index.json",
               [&] { open_checkpoint(folder.path()); });
  folder.write("pytorch_model.bin", "x");
  folder.write("model-q4.gguf", "x");
  expect_error(ErrorKind::kCheckpoint, "(it holds model-q4.gguf, pytorch_model.bin, which we do not read)",
               [&] { open_checkpoint(folder.path()); });
}

TEST(Checkpoint, ALinkToNothingIsNotTakenForAbsence) {
  const ScratchFolder folder;
  std::filesystem::create_symlink(folder / "blob", folder / "model.safetensors");
  expect_error(ErrorKind::kDevice, "model.safetensors: cannot open: No such file or directory",
               [&] { open_checkpoint(folder.path()); });
}

TEST(ShardedCheckpoint, FindsTensorsInAllShards) {
  const ShardedFolder sharded;
  const Checkpoint checkpoint = sharded.open();
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string_view>{"a", "b", "c"}));
  EXPECT_EQ(text(*checkpoint.find("a")), "aa");
  EXPECT_EQ(text(*checkpoint.find("c")), "cc");
  EXPECT_EQ(checkpoint.find("c")->file, sharded.folder / "2.safetensors");
}

TEST(ShardedCheckpoint, MissingShardsAreListed) {
  const ShardedFolder one;
  std::filesystem::remove(one.folder / "2.safetensors");
  expect_broken(one, "1 of 2 shards are missing: 2.safetensors (download them)");
  const ShardedFolder many(
      R"("a":"1.safetensors","b":"x1","c":"x2","d":"x3","e":"x4","f":"x5","g":"x6","h":"x7","i":"x1")");
  expect_broken(many, "7 of 8 shards are missing: x1, x2, x3, x4, x5 and 2 more");
}

TEST(ShardedCheckpoint, TensorsThatTheirShardLacksAreListed) {
  const ShardedFolder sharded(
      R"("a":"1.safetensors","b":"1.safetensors","c":"2.safetensors","d":"2.safetensors","e":"1.safetensors")");
  expect_broken(sharded,
                "tensors that are listed but not in their shards, download those again (2 in all): "
                "d of 2.safetensors, e of 1.safetensors");
}

TEST(ShardedCheckpoint, TensorsThatTheIndexDoesNotListAreErrors) {
  const ShardedFolder sharded(R"("a":"1.safetensors","c":"2.safetensors")");
  expect_broken(sharded, "tensors that are in the shards but not listed (1 in all): b in 1.safetensors");
}

TEST(ShardedCheckpoint, TensorsInAnotherShardThanListedAreErrors) {
  const ShardedFolder sharded(R"("a":"1.safetensors","b":"2.safetensors","c":"2.safetensors")");
  expect_broken(
      sharded,
      "tensors that are in other shards than listed (1 in all): b in 1.safetensors, listed in 2.safetensors");
}

TEST(ShardedCheckpoint, ATensorInTwoShardsIsAnError) {
  const ShardedFolder sharded;
  write_safetensors(sharded.folder / "2.safetensors", {bytes_tensor("b", "BBBB"), bytes_tensor("c", "cc")});
  expect_broken(sharded, "tensors that are in two shards (1 in all): b in 1.safetensors and 2.safetensors");
}

TEST(ShardedCheckpoint, ADamagedShardIsNamed) {
  const ShardedFolder sharded;
  std::filesystem::resize_file(sharded.folder / "2.safetensors",
                               std::filesystem::file_size(sharded.folder / "2.safetensors") - 1);
  expect_error(ErrorKind::kCheckpoint, "2.safetensors: has 1 bytes of data, want 2: it is cut short",
               [&] { sharded.open(); });
}

TEST(ShardedCheckpoint, ShardsOutsideTheFolderAreRefused) {
  expect_broken(ShardedFolder(R"("a":"../1.safetensors")"),
                "a is in ../1.safetensors, want the name of a file beside");
}

std::vector<float> to_float(const CheckpointTensor& tensor) {
  const size_t bytes = dtype_bytes(tensor.dtype);
  std::vector<float> values(tensor.data.size() / bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half;
    if (tensor.dtype == DType::kF32)
      std::memcpy(&values[i], tensor.data.data() + i * bytes, bytes);
    else
      std::memcpy(&half, tensor.data.data() + i * bytes, bytes);
    if (tensor.dtype == DType::kF16) values[i] = f16_to_float(half);
    if (tensor.dtype == DType::kBF16) values[i] = bf16_to_float(half);
  }
  return values;
}

// Files that the reference implementation wrote. The values of the embedding were read with Python's json and
// struct.
TEST(GoldenCheckpoint, ModelsOpenAndHoldTheirValues) {
  struct Case {
    const char* folder;
    DType dtype;
    size_t num_tensors;
    float first, last;
    double sum;
  };
  const Case cases[] = {
      {"qwen3-tied-bf16", DType::kBF16, 35, 0.07958984375f, -0.302734375f, -71.56306743621826},
      {"qwen3-untied-f32", DType::kF32, 36, -0.058134641498327255f, -1.4100406169891357f, 15.238944788046865},
      {"qwen3-yarn-f16-sharded", DType::kF16, 35, 1.208984375f, 1.4033203125f, -82.94222801923752},
      {"qwen3-head128-gqa8-bf16", DType::kBF16, 24, 0.8046875f, -0.1552734375f, -50.87313532829285},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.folder);
    const Checkpoint checkpoint = open_checkpoint(test::golden(c.folder));
    EXPECT_EQ(checkpoint.names().size(), c.num_tensors);
    for (const std::string_view name : checkpoint.names()) {
      const CheckpointTensor& tensor = *checkpoint.find(name);
      EXPECT_EQ(tensor.dtype, c.dtype) << name;
      int64_t num_elements = 1;
      for (const int64_t dim : tensor.shape) num_elements *= dim;
      EXPECT_EQ(tensor.data.size(), size_t(num_elements) * dtype_bytes(c.dtype)) << name;
    }
    const CheckpointTensor& embedding = *checkpoint.find("model.embed_tokens.weight");
    EXPECT_EQ(embedding.shape, (std::vector<int64_t>{320, 64}));
    const std::vector<float> values = to_float(embedding);
    EXPECT_EQ(values.front(), c.first);
    EXPECT_EQ(values.back(), c.last);
    EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0), c.sum, 1e-9);
  }
}

TEST(GoldenCheckpoint, TheDemoModelOpens) {
  const Checkpoint checkpoint = open_checkpoint(test::demo_model());
  EXPECT_EQ(checkpoint.names().size(), 90u);
  EXPECT_EQ(checkpoint.find("model.norm.weight")->shape, std::vector<int64_t>{256});
}

}  // namespace
}  // namespace nanovllm
