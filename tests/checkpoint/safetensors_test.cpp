#include "checkpoint/safetensors.h"

#include "safetensors_writer.h"
#include "support.h"

namespace nanovllm {
namespace {

using test::expect_error;
using test::named_tensor;
using test::safetensors_bytes;

// The tensors' data lies in `bytes`, which must outlive its use.
std::vector<SafetensorsTensor> parse(std::string_view bytes) {
  return parse_safetensors({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "a.safetensors");
}

std::string_view text(const SafetensorsTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

void expect_damaged(std::string_view part, std::string_view bytes) {
  expect_error(ErrorKind::kCheckpoint, "a.safetensors: ", [&] { parse(bytes); });
  expect_error(ErrorKind::kCheckpoint, part, [&] { parse(bytes); });
}

// A file whose header says this, before 8 bytes of data.
void expect_bad_header(std::string_view part, std::string_view header) {
  expect_damaged(part, safetensors_bytes(header, "01234567"));
}

// A tensor "w" with this body, before 8 bytes of data.
void expect_bad_entry(std::string_view part, std::string_view body) {
  expect_bad_header(part, std::string(R"({"w":{)").append(body) + "}}");
}

// "a" and "b" are bytes; the data is 8 bytes long.
void expect_bad_layout(std::string_view part, const std::string& a_shape, const std::string& a_offsets,
                       const std::string& b_shape, const std::string& b_offsets) {
  expect_bad_header(part, R"({"a":{"dtype":"U8","shape":)" + a_shape + R"(,"data_offsets":)" + a_offsets +
                              R"(},"b":{"dtype":"U8","shape":)" + b_shape + R"(,"data_offsets":)" +
                              b_offsets + "}}");
}

TEST(Safetensors, GivesNamesDTypesShapesAndBytes) {
  const std::string file = safetensors_bytes({named_tensor<float>("f32", "F32", {2, 1}, {1.5f, -2}),
                                              named_tensor<uint16_t>("f16", "F16", {3}, {1, 2, 3}),
                                              named_tensor<uint16_t>("bf16", "BF16", {1, 1, 1}, {7}),
                                              named_tensor<int32_t>("i32", "I32", {1}, {-9})});
  const std::vector<SafetensorsTensor> tensors = parse(file);
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[0].name, "f32");
  EXPECT_EQ(tensors[0].dtype_name, "F32");
  EXPECT_EQ(tensors[0].dtype, DType::kF32);
  EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{2, 1}));
  float values[2];
  ASSERT_EQ(tensors[0].data.size(), sizeof(values));
  std::memcpy(values, tensors[0].data.data(), sizeof(values));
  EXPECT_EQ(values[0], 1.5f);
  EXPECT_EQ(values[1], -2);
  EXPECT_EQ(tensors[1].dtype, DType::kF16);
  EXPECT_EQ(tensors[2].dtype, DType::kBF16);
  EXPECT_EQ(tensors[3].dtype, DType::kI32);
  EXPECT_EQ(tensors[3].data.data() + 4, reinterpret_cast<const std::byte*>(file.data()) + file.size());
}

TEST(Safetensors, TheOrderOfTheHeaderIsFree) {
  const std::string file = safetensors_bytes(
      R"({"z":{"data_offsets":[3,5],"shape":[2],"dtype":"U8"},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
      "aaazz");
  const auto tensors = parse(file);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(text(tensors[0]), "aaa");
  EXPECT_EQ(tensors[1].name, "z");
  EXPECT_EQ(text(tensors[1]), "zz");
}

TEST(Safetensors, ScalarsAndEmptyTensorsAreTensors) {
  const auto tensors =
      parse(safetensors_bytes({named_tensor<float>("empty", "F32", {0, 9007199254740992}, {}),
                               named_tensor<float>("scalar", "F32", {}, {3}),
                               named_tensor<float>("empty at the end", "F32", {4, 0}, {})}));
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].data.size(), 0u);
  EXPECT_EQ(tensors[1].data.size(), 4u);
  EXPECT_EQ(tensors[1].shape, std::vector<int64_t>{});
  EXPECT_EQ(tensors[2].data.size(), 0u);
}

TEST(Safetensors, AnEmptyTensorMayStandWhereAnotherBegins) {
  const std::string file = safetensors_bytes(
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
      "aa");
  const auto tensors = parse(file);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "b");
  EXPECT_EQ(text(tensors[1]), "aa");
}

TEST(Safetensors, NoTensorsNeedNoData) {
  EXPECT_TRUE(parse(safetensors_bytes("{}", "")).empty());
  EXPECT_TRUE(parse(safetensors_bytes(R"({"__metadata__":{}}   )", "")).empty());
  expect_damaged("has 1 bytes of data, want 0: the last 1 belong to no tensor", safetensors_bytes("{}", "x"));
}

TEST(Safetensors, DTypesWeCannotReadKeepTheirName) {
  const auto tensors =
      parse(safetensors_bytes({named_tensor<uint8_t>("known", "F8_E4M3", {2, 2}, {1, 2, 3, 4}),
                               named_tensor<uint8_t>("half bytes", "F4", {3, 2}, {1, 2, 3}),
                               named_tensor<uint8_t>("unknown", "Q3_NEW", {100}, {1, 2, 3}),
                               named_tensor<uint8_t>("unnamed", "", {1}, {1})}));
  ASSERT_EQ(tensors.size(), 4u);
  for (const SafetensorsTensor& tensor : tensors) EXPECT_FALSE(tensor.dtype) << tensor.name;
  EXPECT_EQ(tensors[0].dtype_name, "F8_E4M3");
  EXPECT_EQ(tensors[2].dtype_name, "Q3_NEW");
  EXPECT_EQ(tensors[2].data.size(), 3u);
}

TEST(Safetensors, DataMayBeginAtAnyAddress) {
  for (size_t misalignment = 0; misalignment < 8; ++misalignment) {
    const std::string file = safetensors_bytes({named_tensor<uint16_t>("odd", "BF16", {1}, {0x4048}),
                                                named_tensor<float>("w", "F32", {2}, {1.25f, -3})},
                                               misalignment);
    const auto tensors = parse(file);
    ASSERT_EQ(tensors.size(), 2u);
    EXPECT_EQ(size_t(reinterpret_cast<const char*>(tensors[0].data.data()) - file.data()) % 8, misalignment);
    float values[2];
    ASSERT_EQ(tensors[1].data.size(), sizeof(values));
    std::memcpy(values, tensors[1].data.data(), sizeof(values));
    EXPECT_EQ(values[0], 1.25f);
    EXPECT_EQ(values[1], -3);
  }
}

TEST(Safetensors, WhatAFailedDownloadLeavesIsNamed) {
  expect_damaged("is empty (download it again)", "");
  expect_damaged("is a Git LFS pointer, not the weights: run git lfs pull",
                 "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
  expect_damaged("is an HTML page, not the weights", "<!DOCTYPE html>\n<html><body>404</body></html>");
  expect_damaged("is an HTML page, not the weights", "\n  <HTML lang=en>");
  expect_damaged("it begins with \"Entry no\"", "Entry not found");
  expect_damaged("has 7 bytes, want at least 8", "1234567");
}

TEST(Safetensors, HeaderLengthIsChecked) {
  const auto with_length = [](uint64_t length) {
    std::string file = safetensors_bytes("{}", "");
    for (size_t i = 0; i < 8; ++i) file[i] = char(length >> (8 * i) & 0xFF);
    return file;
  };
  EXPECT_TRUE(parse(with_length(2)).empty());
  expect_damaged("a header of 0 bytes, want 1 to 100000000", with_length(0));
  expect_damaged("has 10 bytes, but its header alone has 3", with_length(3));
  expect_damaged("has 10 bytes, but its header alone has 11", with_length(11));
  expect_damaged("has 10 bytes, but its header alone has 100000000", with_length(100'000'000));
  expect_damaged("a header of 100000001 bytes", with_length(100'000'001));
  expect_damaged("a header of 9223372036854775808 bytes", with_length(uint64_t{1} << 63));
  expect_damaged("a header of 18446744073709551615 bytes", with_length(~uint64_t{0}));
  expect_damaged("has 8 bytes, but its header alone has 2", with_length(2).substr(0, 8));
}

TEST(Safetensors, HeaderMustBeAJsonObject) {
  expect_bad_header("the header is not a JSON object", "hello");
  expect_bad_header("the header is not a JSON object", "[]");
  expect_bad_header("the header is not a JSON object", " {}");
  expect_bad_header("the header is not JSON from byte 2 on", "{,}");
  expect_bad_header("the header is not JSON from byte 3 on", "{}{}");
  expect_bad_header("the header is not JSON", "{\"a\xFF\":{}}");
  expect_bad_header("the header is not JSON", R"({"a":{"shape":[1e999]}})");
  expect_bad_header("the header is not JSON from byte 3 on", std::string_view("{}\0 rest", 8));
  expect_bad_header("the header is not JSON", R"({"w":{"dtype":"U8")");
}

TEST(Safetensors, NestingDeeperThanTheFormatIsRefusedAtOnce) {
  expect_bad_header("w is a list, want an object", std::string(R"({"w":)").append(1 << 20, '['));
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += R"("w":{)";
  expect_bad_header("w has a key w", objects);
  expect_bad_entry("w: shape holds a list", R"("shape":[[)");
}

TEST(Safetensors, AKeyThatComesTwiceIsAnError) {
  const std::string entry = R"("w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]})";
  expect_bad_header("w is in the header twice", "{" + entry + "," + entry + "}");
  expect_bad_header("__metadata__ is in the header twice",
                    R"({"__metadata__":{},"__metadata__":{},)" + entry + "}");
  expect_bad_entry("w has dtype twice", R"("dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8])");
  expect_bad_entry("w has shape twice", R"("dtype":"U8","shape":[8],"shape":[8],"data_offsets":[0,8])");
  expect_bad_entry("w has data_offsets twice",
                   R"("dtype":"U8","data_offsets":[0,8],"shape":[8],"data_offsets":[0,8])");
  // Names that are equal only after JSON's escapes.
  expect_bad_header("w is in the header twice",
                    R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                    R"("\u0077":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}})");
}

TEST(Safetensors, EntriesHaveTheThreeKeysAndNoOther) {
  expect_bad_entry("w has no dtype", R"("shape":[8],"data_offsets":[0,8])");
  expect_bad_entry("w has no shape", R"("dtype":"U8","data_offsets":[0,8])");
  expect_bad_entry("w has no data_offsets", R"("dtype":"U8","shape":[8])");
  expect_bad_entry("w has a key strides, want dtype, shape and data_offsets only", R"("strides":[1])");
  expect_bad_header("w is null, want an object with dtype, shape and data_offsets", R"({"w":null})");
  expect_bad_header("w is a string, want an object", R"({"w":"x"})");
  expect_bad_header("w is a number, want an object", R"({"w":1})");
}

TEST(Safetensors, ValuesAreOfTheRightKind) {
  expect_bad_entry("w: dtype is a number, want a string", R"("dtype":8)");
  expect_bad_entry("w: dtype is a list, want a string", R"("dtype":["U8"])");
  expect_bad_entry("w: shape is a string, want a list of whole numbers", R"("shape":"8")");
  expect_bad_entry("w: shape is an object, want a list of whole numbers", R"("shape":{})");
  expect_bad_entry("w: shape holds an object, want whole numbers", R"("shape":[{}])");
  expect_bad_entry("w: shape holds a string, want whole numbers", R"("shape":["8"])");
  expect_bad_entry("w: data_offsets holds true or false", R"("data_offsets":[true,8])");
  expect_bad_entry("w: data_offsets is null", R"("data_offsets":null)");
}

TEST(Safetensors, NumbersAreWholeAndSmallEnough) {
  expect_bad_entry("w: shape holds a negative number, want whole numbers from 0 to 2^53", R"("shape":[-1])");
  expect_bad_entry("w: shape holds a negative number", R"("shape":[-0])");
  expect_bad_entry("w: shape holds a number with a fraction", R"("shape":[8.5])");
  expect_bad_entry("w: shape holds a number with a fraction", R"("shape":[8.0])");
  expect_bad_entry("w: shape holds a number with a fraction", R"("shape":[8e0])");
  expect_bad_entry("w: shape holds a number above 2^53", R"("shape":[9007199254740993])");
  expect_bad_entry("w: data_offsets holds a number above 2^53", R"("data_offsets":[0,18446744073709551615])");
  expect_bad_entry("w: data_offsets holds a number with a fraction or beyond 2^64",
                   R"("data_offsets":[0,18446744073709551616])");
}

TEST(Safetensors, MetadataIsAMapOfStrings) {
  const std::string entry = R"(,"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})";
  EXPECT_EQ(parse(safetensors_bytes(R"({"__metadata__":{"format":"pt","":"x"})" + entry, "01234567")).size(),
            1u);
  expect_bad_header("__metadata__ is null, want a map of strings", R"({"__metadata__":null)" + entry);
  expect_bad_header("__metadata__ is a list, want a map of strings", R"({"__metadata__":[])" + entry);
  expect_bad_header("__metadata__ is a string, want a map of strings", R"({"__metadata__":"pt")" + entry);
  expect_bad_header("__metadata__ holds a number, want strings only", R"({"__metadata__":{"a":1})" + entry);
  expect_bad_header("__metadata__ holds an object, want strings only", R"({"__metadata__":{"a":{}})" + entry);
  expect_bad_header("__metadata__ holds a list, want strings only", R"({"__metadata__":{"a":[]})" + entry);
}

TEST(Safetensors, ShapeTimesDTypeIsTheSizeOfTheData) {
  expect_bad_entry("w is [9] U8, which is 72 bits, but data_offsets [0, 8] hold 8 bytes",
                   R"("dtype":"U8","shape":[9],"data_offsets":[0,8])");
  expect_bad_entry("w is [3] F32, which is 96 bits", R"("dtype":"F32","shape":[3],"data_offsets":[0,8])");
  expect_bad_entry("w is [] F32, which is 32 bits", R"("dtype":"F32","shape":[],"data_offsets":[0,8])");
  expect_bad_entry("w is [2, 0] F32, which is 0 bits", R"("dtype":"F32","shape":[2,0],"data_offsets":[0,8])");
  expect_bad_entry("w is [17] F4, which is 68 bits", R"("dtype":"F4","shape":[17],"data_offsets":[0,8])");
  expect_bad_entry("w is [1, 1, 1, 1, 1, 1, 1, 1, ...] U8",
                   R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,8])");
}

TEST(Safetensors, AShapeWhoseProductOverflowsIsRefused) {
  // 2^32 * 2^32 = 2^64, and 2^61 * 8 in bytes: both are 0 in 64 bits.
  expect_bad_entry("w: shape [4294967296, 4294967296] has more than 2^53 elements",
                   R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])");
  expect_bad_entry("has more than 2^53 elements",
                   R"("dtype":"F64","shape":[8192,281474976710656],"data_offsets":[0,0])");
  expect_bad_entry("has more than 2^53 elements",
                   R"("dtype":"NEW","shape":[9007199254740992,2],"data_offsets":[0,8])");
}

TEST(Safetensors, OffsetsAreTwoAndInOrder) {
  expect_bad_entry("w: data_offsets has 0 numbers, want begin and end",
                   R"("dtype":"U8","shape":[8],"data_offsets":[])");
  expect_bad_entry("w: data_offsets has 1 numbers", R"("dtype":"U8","shape":[8],"data_offsets":[8])");
  expect_bad_entry("w: data_offsets has 3 numbers", R"("dtype":"U8","shape":[8],"data_offsets":[0,8,8])");
  expect_bad_entry("w: data_offsets are [8, 0], want begin <= end",
                   R"("dtype":"U8","shape":[8],"data_offsets":[8,0])");
}

TEST(Safetensors, TensorsDoNotOverlap) {
  expect_bad_layout("b overlaps a: it begins at 4, before 5", "[5]", "[0,5]", "[4]", "[4,8]");
  expect_bad_layout("b overlaps a: it begins at 0, before 8", "[8]", "[0,8]", "[8]", "[0,8]");
  expect_bad_layout("b overlaps a: it begins at 3, before 8", "[8]", "[0,8]", "[0]", "[3,3]");
}

TEST(Safetensors, DataHasNoHoles) {
  expect_bad_layout("bytes 3 to 4 of the data, before b, belong to no tensor", "[3]", "[0,3]", "[4]",
                    "[4,8]");
  expect_bad_layout("bytes 0 to 1 of the data, before a, belong to no tensor", "[3]", "[1,4]", "[4]",
                    "[4,8]");
}

TEST(Safetensors, DataEndsWithTheLastTensor) {
  const std::string file = safetensors_bytes({named_tensor<float>("w", "F32", {2}, {1, 2})});
  EXPECT_EQ(parse(file).size(), 1u);
  expect_damaged("has 9 bytes of data, want 8: the last 1 belong to no tensor", file + "x");
  expect_damaged("has 7 bytes of data, want 8: it is cut short (download it again)",
                 file.substr(0, file.size() - 1));
  expect_bad_layout("has 8 bytes of data, want 9007199254740992: it is cut short", "[4]", "[0,4]",
                    "[9007199254740988]", "[4,9007199254740992]");
}

TEST(Safetensors, EveryCutOfAFileIsAnError) {
  const std::string file = safetensors_bytes({named_tensor<float>("w", "F32", {2}, {1, 2})});
  for (size_t size = 0; size < file.size(); ++size)
    expect_error(ErrorKind::kCheckpoint, "a.safetensors: ", [&] { parse(file.substr(0, size)); });
}

TEST(Safetensors, NamesInMessagesAreCutAndHarmless) {
  expect_bad_header("a??[2J is null", R"({"a\n\u001b[2J":null})");
  expect_bad_header(std::string(120, 'x') + "... is null",
                    std::string(R"({")").append(1 << 20, 'x') + R"(":null})");
}

std::map<std::string, std::string> parse_index(std::string_view text) {
  return parse_safetensors_index(text, "index.json");
}

void expect_bad_index(std::string_view part, std::string_view text) {
  expect_error(ErrorKind::kCheckpoint, "index.json: ", [&] { parse_index(text); });
  expect_error(ErrorKind::kCheckpoint, part, [&] { parse_index(text); });
}

TEST(SafetensorsIndex, GivesTheWeightMapAndSkipsTheRest) {
  const std::map<std::string, std::string> want{{"a", "1.safetensors"}, {"b", "2.safetensors"}};
  EXPECT_EQ(parse_index(
                R"({"metadata":{"total_size":8,"weight_map":{"x":[1,-1,2.5,null,true,"s"]}},"x":null,"y":[[]],
                            "weight_map":{"a":"1.safetensors","b":"2.safetensors"},"z":{"a":"b"}})"),
            want);
}

TEST(SafetensorsIndex, MustBeAnObjectWithAWeightMap) {
  expect_bad_index("is empty", "");
  expect_bad_index("is a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\n");
  expect_bad_index("is an HTML page", "<html>");
  expect_bad_index("the index is not JSON from byte 1 on", "Entry not found");
  expect_bad_index("the index is not JSON", R"({"weight_map":{"a":"b"})");
  expect_bad_index("the index is a list, want an object", "[]");
  expect_bad_index("the index is a number, want an object", "1");
  expect_bad_index("has no weight_map", "{}");
  expect_bad_index("has no weight_map", R"({"metadata":{"weight_map":{"a":"b"}}})");
  expect_bad_index("weight_map is empty", R"({"weight_map":{}})");
  expect_bad_index("weight_map is a list, want a map from tensor to file name", R"({"weight_map":["a"]})");
  expect_bad_index("weight_map is null, want a map from tensor to file name", R"({"weight_map":null})");
  expect_bad_index("weight_map is a string, want a map from tensor to file name", R"({"weight_map":"a"})");
  expect_bad_index("weight_map is in the index twice", R"({"weight_map":{"a":"b"},"weight_map":{"a":"b"}})");
  expect_bad_index("a is in weight_map twice", R"({"weight_map":{"a":"b","a":"b"}})");
  expect_bad_index("a is in a number, want a file name", R"({"weight_map":{"a":1}})");
  expect_bad_index("a is in an object, want a file name", R"({"weight_map":{"a":{}}})");
}

TEST(SafetensorsIndex, DeepNestingIsSkippedWithoutRecursion) {
  const size_t depth = 1 << 20;
  EXPECT_EQ(parse_index(std::string(R"({"x":)") + std::string(depth, '[') + std::string(depth, ']') +
                        R"(,"weight_map":{"a":"b"}})")
                .size(),
            1u);
}

TEST(SafetensorsIndex, ShardsLieBesideTheIndex) {
  for (const char* shard : {"../x", "/etc/passwd", "a/b", "..", ".", R"(a\\b)", R"(b\u0000)"})
    expect_bad_index("want the name of a file beside the index",
                     std::string(R"({"weight_map":{"a":")") + shard + R"("}})");
  expect_bad_index("a is in \"\", want the name of a file", R"({"weight_map":{"a":""}})");
  EXPECT_EQ(parse_index(R"({"weight_map":{"a":"..b"}})").size(), 1u);
}

}  // namespace
}  // namespace nanovllm
