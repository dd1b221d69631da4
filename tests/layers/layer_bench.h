// A work bench for layers: checkpoints of numbered elements, and weights read back out of a backend's own
// layout.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "layers/parameter.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/embedding.h"
#include "parallel/thread_ranks.h"
#include "safetensors_writer.h"
#include "support.h"

namespace nanovllm::test {

// A context that ops can run in: one thread, one rank, a little memory for activations.
struct OpBench {
  OpBench() : OpBench(one_rank) {}
  explicit OpBench(Communicator& comm)
      : ctx{.ops = cpu_ops(), .arena = arena, .comm = comm, .threads = &threads} {}

  Arena arena{host_device(), size_t{1} << 20};
  SingleRank one_rank;
  ThreadPool threads{1};
  Context ctx;
};

// A matrix as rows; a vector as one row.
using Rows = std::vector<std::vector<float>>;

// What a loaded weight holds, read by the op that looks up rows.
inline Rows read_weight(const Weight& weight) {
  OpBench bench;
  std::vector<int32_t> ids(static_cast<size_t>(weight.out_features));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> out(ids.size() * size_t(weight.in_features));
  embedding(bench.ctx,
            {.out = Tensor::view(out.data(), DType::kF32, {weight.out_features, weight.in_features}),
             .token_ids = Tensor::view(ids.data(), DType::kI32, {weight.out_features}),
             .table = weight});
  Rows rows;
  for (size_t r = 0; r < ids.size(); ++r)
    rows.emplace_back(out.begin() + int64_t(r) * weight.in_features,
                      out.begin() + int64_t(r + 1) * weight.in_features);
  return rows;
}

inline Rows read_parameter(const Parameter& parameter) {
  if (parameter.weight().defined()) return read_weight(parameter.weight());
  const Tensor& values = parameter.values();
  return {std::vector<float>(values.ptr<float>(), values.ptr<float>() + values.num_elements())};
}

// Element [row, column] of tensor number n is n · 1000 + row · 20 + column: it tells where it comes from.
inline float numbered(int tensor, int64_t row, int64_t column) {
  return float(tensor * 1000 + row * 20 + column);
}

// Rows [first, first + count) of numbered tensor n, columns [first_column, first_column + columns).
inline Rows numbered_rows(int tensor, int64_t first, int64_t count, int64_t first_column, int64_t columns) {
  Rows rows;
  for (int64_t r = first; r < first + count; ++r) {
    rows.emplace_back();
    for (int64_t c = first_column; c < first_column + columns; ++c)
      rows.back().push_back(numbered(tensor, r, c));
  }
  return rows;
}

inline Rows stacked(std::initializer_list<Rows> parts) {
  Rows all;
  for (const Rows& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Several vectors end to end, each the first column of a numbered tensor.
inline Rows as_vector(const Rows& rows) {
  Rows vector(1);
  for (const auto& row : rows) vector[0].push_back(row[0]);
  return vector;
}

inline NamedTensor numbered_tensor(int number, std::string name, std::vector<int64_t> shape) {
  std::vector<float> values;
  for (int64_t r = 0; r < shape[0]; ++r)
    for (int64_t c = 0; c < (shape.size() > 1 ? shape[1] : 1); ++c) values.push_back(numbered(number, r, c));
  return named_tensor(std::move(name), "F32", std::move(shape), values);
}

// A checkpoint of these tensors in a folder of its own.
class TestCheckpoint {
 public:
  explicit TestCheckpoint(const std::vector<NamedTensor>& tensors, size_t misalignment = 0) {
    write_safetensors(folder_ / "model.safetensors", tensors, misalignment);
    checkpoint_.emplace(open_checkpoint(folder_.path()));
  }
  const Checkpoint& operator*() const { return *checkpoint_; }
  std::string file() const { return (folder_ / "model.safetensors").string(); }

 private:
  ScratchFolder folder_;
  std::optional<Checkpoint> checkpoint_;
};

// Loads what the layer declares and reads it back, in the order of its parameters.
template <class Layer>
std::vector<Rows> load_layer(Layer& layer, const TestCheckpoint& checkpoint) {
  OpBench bench;
  std::vector<Rows> result;
  layer.visit_parameters([&](Parameter& parameter) {
    parameter.load(bench.ctx, *checkpoint);
    result.push_back(read_parameter(parameter));
  });
  return result;
}

}  // namespace nanovllm::test
