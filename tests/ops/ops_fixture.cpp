#include "ops/ops_fixture.h"

#include <random>

#include "ops/cuda/cuda_ops.h"

namespace nanovllm::test {

template class Array<float>;
template class Array<int32_t>;

namespace {

// Calls the CUDA op and waits for it.
template <auto kOp, class Args>
void complete(Context& ctx, const Args& args) {
  (cuda_ops(ctx.ops.activation_dtype).*kOp)(ctx, args);
  cuda_device().synchronize();
}

OpTable complete_cuda_ops() {
  OpTable ops = cuda_ops(DType::kF32);
  ops.device = &cuda_host_device();
  ops.store_weight = complete<&OpTable::store_weight, StoreWeightArgs>;
  ops.embedding = complete<&OpTable::embedding, EmbeddingArgs>;
  ops.linear = complete<&OpTable::linear, LinearArgs>;
  ops.rms_norm = complete<&OpTable::rms_norm, RmsNormArgs>;
  ops.add_rms_norm = complete<&OpTable::add_rms_norm, AddRmsNormArgs>;
  ops.rope = complete<&OpTable::rope, RopeArgs>;
  ops.silu_and_mul = complete<&OpTable::silu_and_mul, SiluAndMulArgs>;
  ops.store_kv = complete<&OpTable::store_kv, StoreKvArgs>;
  ops.copy_blocks = complete<&OpTable::copy_blocks, CopyBlocksArgs>;
  ops.attention = complete<&OpTable::attention, AttentionArgs>;
  ops.sum_segments = complete<&OpTable::sum_segments, SumSegmentsArgs>;
  ops.gather_rows = complete<&OpTable::gather_rows, GatherRowsArgs>;
  ops.edit_logits = complete<&OpTable::edit_logits, EditLogitsArgs>;
  ops.restore_logits = complete<&OpTable::restore_logits, EditLogitsArgs>;
  ops.sample = complete<&OpTable::sample, SampleArgs>;
  ops.top_logprobs = complete<&OpTable::top_logprobs, TopLogprobsArgs>;
  ops.token_logprobs = complete<&OpTable::token_logprobs, TokenLogprobsArgs>;
  ops.norm_rope_store = complete<&OpTable::norm_rope_store, NormRopeStoreArgs>;
  return ops;
}

bool has_gpu() { return cuda_unavailable().empty(); }

class PinnedMemory final : public std::pmr::memory_resource {
  void* do_allocate(size_t bytes, size_t) override { return cuda_host_device().allocate(bytes); }
  void do_deallocate(void* data, size_t bytes, size_t) override { cuda_host_device().release(data, bytes); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace

std::pmr::memory_resource& shared_memory() {
  if (!has_gpu()) return *std::pmr::new_delete_resource();
  static PinnedMemory pinned;
  static std::pmr::synchronized_pool_resource pool(
      {.max_blocks_per_chunk = 64, .largest_required_pool_block = 1 << 20}, &pinned);
  return pool;
}

OpContext::OpContext(const OpTable& ops, int num_threads, size_t arena_bytes)
    : threads(num_threads),
      arena(*ops.device, arena_bytes),
      state(
          ops.make_state ? ops.make_state() : nullptr, ops.make_state ? ops.release_state : [](void*) {}),
      ctx{.ops = ops, .arena = arena, .comm = comm, .threads = &threads, .state = state.get()} {}

OpContext::~OpContext() = default;

std::vector<std::string> instruction_sets() {
  const cpu::KernelList list = cpu::runnable_kernels();
  std::vector<std::string> names;
  for (int i = 0; i < list.count; ++i) names.emplace_back(list.sets[i]->instruction_set);
  return names;
}

std::vector<std::string> backends() {
  std::vector<std::string> names = instruction_sets();
  if (has_gpu()) names.insert(names.begin(), "cuda");
  return names;
}

const OpTable& ops_named(const std::string& backend) {
  if (backend != "cuda") return cpu_ops(backend);
  static const OpTable cuda = complete_cuda_ops();
  return cuda;
}

Floats random_floats(std::initializer_list<int64_t> shape, uint32_t seed, float scale) {
  Floats result(shape);
  std::mt19937 generator(seed);
  for (size_t i = 0; i < result.size(); ++i) result[i] = float(int32_t(generator())) * 0x1p-31f * scale;
  return result;
}

std::vector<double> doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

StoredWeight::StoredWeight(Context& ctx, DType dtype, const Floats& rows)
    : memory(*ctx.ops.device, weight_bytes(ctx.ops, dtype, rows.tensor().shape[0], rows.tensor().shape[1]),
             "test"),
      weight{memory.data(), dtype, rows.tensor().shape[0], rows.tensor().shape[1]} {
  std::vector<std::byte> source(rows.size() * dtype_bytes(dtype));
  for (size_t i = 0; i < rows.size(); ++i) {
    const float value = rows[i];
    const uint16_t half = dtype == DType::kF16 ? float_to_f16(value) : float_to_bf16(value);
    if (dtype == DType::kF32)
      std::memcpy(&source[4 * i], &value, 4);
    else
      std::memcpy(&source[2 * i], &half, 2);
    values.push_back(dtype == DType::kF32   ? double(value)
                     : dtype == DType::kF16 ? double(f16_to_float(half))
                                            : double(bf16_to_float(half)));
  }
  store_weight(ctx, {.weight = weight,
                     .rows = {.data = source.data(),
                              .dtype = dtype,
                              .num_rows = weight.out_features,
                              .in_features = weight.in_features,
                              .row_stride = weight.in_features}});
}

WorstError::~WorstError() {
  testing::Test::RecordProperty(name_, std::to_string(worst_) + " of " + std::to_string(limit_));
  EXPECT_LE(worst_, limit_) << name_ << ": " << where_;
}

void WorstError::add(double got, double want, double unit, const char* what, int64_t index) {
  double error = got == want ? 0 : std::fabs(got - want) / unit;
  if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
  if (error <= worst_) return;
  worst_ = error;
  where_ = std::string(what) + "[" + std::to_string(index) + "] is " + std::to_string(got) + ", want " +
           std::to_string(want) + " within " + std::to_string(unit);
}

double ulp(double x) { return std::ldexp(1.0, std::max(x == 0 ? -126 : std::ilogb(x), -126) - 23); }

void expect_ulps(WorstError& worst, std::span<const float> got, const std::vector<double>& want,
                 const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) worst.add(got[i], want[i], ulp(want[i]), what, int64_t(i));
}

testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " values, want " << b.size();
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
      return testing::AssertionFailure() << "value " << i << " is " << a[i] << ", want " << b[i];
  return testing::AssertionSuccess();
}

float sum_of_lanes(std::array<float, 16> lanes) {
  for (size_t width = 8; width > 0; width /= 2)
    for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

EverySet::EverySet(int num_threads) {
  for (const std::string& name : backends())
    contexts_.push_back(std::make_unique<OpContext>(ops_named(name), num_threads));
}

void expect_message(ErrorKind kind, const std::string& text, const std::function<void()>& body) {
  try {
    body();
    ADD_FAILURE() << "no error, want: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(int(error.kind()), int(kind)) << error.what();
    EXPECT_EQ(std::string(error.what()), text);
  }
}

}  // namespace nanovllm::test
