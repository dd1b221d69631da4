#include "layers/parameter.h"

#include <algorithm>

#include "base/assert.h"
#include "base/error.h"
#include "ops/ops.h"

namespace nanovllm {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

[[noreturn]] void refuse_split(const std::string& name, int64_t size, const char* what, int num_shards,
                               TensorParallel tp) {
  fail(ErrorKind::kUnsupported, name, ": has ", size, " ", what, ", want a multiple of ", num_shards,
       " to split them over ", tp.size, " ranks");
}

}  // namespace

Parameter::Parameter(bool is_matrix, std::vector<ParameterPart> parts, int64_t in_features, Shard shard,
                     TensorParallel tp)
    : is_matrix_(is_matrix),
      parts_(std::move(parts)),
      full_in_features_(in_features),
      shard_(shard),
      tp_(tp) {
  for (ParameterPart& part : parts_) {
    const bool split = shard_ == Shard::kRows || shard_ == Shard::kPaddedRows;
    if (!split) part.num_shards = 1;
    if (part.num_shards == 0) part.num_shards = tp.size;
    if (tp.size % part.num_shards != 0)
      fail(ErrorKind::kUnsupported, part.name, ": has ", part.num_shards, " shards for ", tp.size,
           " ranks, want a number that divides them");
    if (shard_ == Shard::kRows && part.rows % part.num_shards != 0)
      refuse_split(part.name, part.rows, "rows", part.num_shards, tp);
  }
  if (shard_ == Shard::kColumns && in_features % tp.size != 0)
    refuse_split(parts_[0].name, in_features, "inputs", tp.size, tp);
}

Parameter Parameter::matrix(std::vector<ParameterPart> parts, int64_t in_features, Shard shard,
                            TensorParallel tp) {
  return Parameter(true, std::move(parts), in_features, shard, tp);
}

Parameter Parameter::vector(std::vector<ParameterPart> parts, Shard shard, TensorParallel tp) {
  ASSERT(shard == Shard::kReplicated || shard == Shard::kRows);
  return Parameter(false, std::move(parts), 1, shard, tp);
}

Parameter::Range Parameter::rows_of(const ParameterPart& part) const {
  const int64_t count = (part.rows + part.num_shards - 1) / part.num_shards;
  const int64_t begin = std::min(part.rows, tp_.rank * part.num_shards / tp_.size * count);
  return {begin, count, std::min(count, part.rows - begin)};
}

int64_t Parameter::rows() const {
  int64_t rows = 0;
  for (const ParameterPart& part : parts_) rows += rows_of(part).count;
  return rows;
}

int64_t Parameter::in_features() const {
  return shard_ == Shard::kColumns ? full_in_features_ / tp_.size : full_in_features_;
}

const CheckpointTensor& Parameter::find(const Checkpoint& checkpoint, const ParameterPart& part) const {
  const CheckpointTensor* tensor = checkpoint.find(part.name);
  if (!tensor) fail(ErrorKind::kCheckpoint, "checkpoint: has no ", part.name);
  std::vector<int64_t> want{part.rows};
  if (is_matrix_) want.push_back(full_in_features_);
  if (tensor->shape != want)
    fail(ErrorKind::kCheckpoint, tensor->file.string(), ": ", part.name, " is ", shape_text(tensor->shape),
         " ", dtype_name(tensor->dtype), ", want ", shape_text(want), " as config.json says");
  return *tensor;
}

void Parameter::check(const Checkpoint& checkpoint) const {
  for (const ParameterPart& part : parts_) find(checkpoint, part);
}

void Parameter::load(Context& ctx, const Checkpoint& checkpoint) {
  ASSERT(!weight_.defined() && !values_.defined());
  is_matrix_ ? load_matrix(ctx, checkpoint) : load_vector(ctx, checkpoint);
}

void Parameter::load_dummy(Context& ctx, DType dtype, std::span<const std::byte> table,
                           std::mt19937_64& random) {
  ASSERT(!weight_.defined() && !values_.defined());
  if (!is_matrix_) {
    store_vector(ctx, std::vector<float>(size_t(rows()), 1.0f));
    return;
  }
  storage_ =
      DeviceBuffer(*ctx.ops.device, weight_bytes(ctx.ops, dtype, rows(), in_features()), parts_[0].name);
  weight_ = {storage_.data(), dtype, rows(), in_features()};
  const int64_t size = int64_t(table.size() / dtype_bytes(dtype)), at_once = size / 2 / in_features();
  ASSERT(at_once >= 1);
  for (int64_t first = 0, count; first < rows(); first += count) {
    count = std::min(at_once, rows() - first);
    const uint64_t begin = random() % uint64_t(size - count * in_features());
    store_weight(ctx, {.weight = weight_,
                       .rows = {.data = table.data() + begin * dtype_bytes(dtype),
                                .dtype = dtype,
                                .num_rows = count,
                                .in_features = in_features(),
                                .row_stride = in_features()},
                       .first_row = first});
  }
}

void Parameter::load_matrix(Context& ctx, const Checkpoint& checkpoint) {
  DType dtype = find(checkpoint, parts_[0]).dtype;
  for (const ParameterPart& part : parts_)
    if (find(checkpoint, part).dtype != dtype) dtype = DType::kF32;
  const DType wanted = ctx.ops.activation_dtype;
  for (const ParameterPart& part : parts_)
    if (const CheckpointTensor& t = find(checkpoint, part); ctx.ops.weights_are_T && t.dtype != wanted)
      fail(ErrorKind::kUnsupported, t.file.string(), ": ", part.name, " is ", dtype_name(t.dtype), ", want ",
           dtype_name(wanted), " to compute in it on ", ctx.ops.backend,
           ", or --dtype float32, which takes any");
  storage_ =
      DeviceBuffer(*ctx.ops.device, weight_bytes(ctx.ops, dtype, rows(), in_features()), parts_[0].name);
  weight_ = {storage_.data(), dtype, rows(), in_features()};

  int64_t first_row = 0;
  const int64_t first_column = shard_ == Shard::kColumns ? tp_.rank * in_features() : 0;
  for (const ParameterPart& part : parts_) {
    const CheckpointTensor& tensor = find(checkpoint, part);
    const Range range = rows_of(part);
    const int64_t first_element = range.begin * full_in_features_ + first_column;
    store_weight(ctx,
                 {.weight = weight_,
                  .rows = {.data = tensor.data.data() + size_t(first_element) * dtype_bytes(tensor.dtype),
                           .dtype = tensor.dtype,
                           .num_rows = range.in_file,
                           .in_features = in_features(),
                           .row_stride = full_in_features_},
                  .first_row = first_row});
    first_row += range.count;
  }
}

void Parameter::load_vector(Context& ctx, const Checkpoint& checkpoint) {
  std::vector<float> values;
  for (const ParameterPart& part : parts_) {
    const CheckpointTensor& tensor = find(checkpoint, part);
    const Range range = rows_of(part);
    for (int64_t i = 0; i < range.count; ++i)
      values.push_back(read_float(tensor.data.data(), tensor.dtype, range.begin + i));
  }
  store_vector(ctx, values);
}

void Parameter::store_vector(Context& ctx, const std::vector<float>& values) {
  storage_ = DeviceBuffer(*ctx.ops.device, values.size() * sizeof(float), parts_[0].name);
  ctx.ops.device->upload(storage_.data(), values.data(), storage_.bytes());
  values_ = Tensor::view(storage_.data(), DType::kF32, {int64_t(values.size())});
}

}  // namespace nanovllm
