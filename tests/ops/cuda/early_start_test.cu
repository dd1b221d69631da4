// Kernels that start early (ops/cuda/launch.cuh) wait for what they read: each op behind a kernel that lets it start, and gives it
// its operands a long while later.
#include "ops/cuda/device_values.h"
#include "ops/cuda/launch.cuh"

namespace nanovllm {
namespace {

using namespace test;

__global__ void late_copy_kernel(uint16_t* to, const uint16_t* from, int64_t count) {
  cuda::start_early();
  const long long begin = clock64();
  while (clock64() - begin < 300'000) {  // more than 100 us
  }
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

class EarlyStartTest : public MmaTest {
 protected:
  // op() with `late` as it is, and with late's values brought by a kernel in front of it, must leave the same in `out`. `changed`:
  // what else it changes.
  void expect_to_wait(const char* what, const DeviceValues& late, const DeviceValues& out,
                      const std::function<void()>& op, const DeviceValues* changed = nullptr) {
    const int64_t count = int64_t(late.bytes().size() / 2);
    const DeviceValues values(DType::kF16, {count}), before(DType::kF16, {int64_t(out.bytes().size() / 2)});
    copy(values, late);
    copy(before, out);  // an op may work in place
    std::vector<std::byte> other;
    if (changed) other = changed->bytes();
    op();
    const std::vector<std::byte> want = out.bytes();
    copy(out, before);
    if (changed) cuda_device().upload(changed->tensor().data, other.data(), other.size());
    cuda_device().upload(late.tensor().data, std::vector<std::byte>(size_t(count) * 2).data(),
                         size_t(count) * 2);
    cuda::launch_early(ctx(), late_copy_kernel, 1, 256, 0, static_cast<uint16_t*>(late.tensor().data),
                       values.tensor().ptr<uint16_t>(), count);
    op();
    EXPECT_TRUE(out.bytes() == want) << what;
  }

 private:
  static void copy(const DeviceValues& to, const DeviceValues& from) {
    const std::vector<std::byte> bytes = from.bytes();
    cuda_device().upload(to.tensor().data, bytes.data(), bytes.size());
  }
};
INSTANTIATE_MMA_TEST(EarlyStartTest);

TEST_P(EarlyStartTest, RowsWaitForTheirOperands) {
  constexpr int64_t kTokens = 5, kWidth = 512;
  const DeviceValues x(dtype(), {kTokens, kWidth}, random_values(kTokens * kWidth, 1, dtype())),
      out(dtype(), {kTokens, kWidth}), half(dtype(), {kTokens, kWidth / 2}),
      weight(DType::kF32, {kWidth}, random_values(kWidth, 2, DType::kF32)),
      sums(DType::kF32, {4, kTokens, kWidth}, random_values(4 * kTokens * kWidth, 3, DType::kF32)),
      odd_sums(DType::kF32, {1, kTokens, 501}, random_values(kTokens * 501, 4, DType::kF32)),
      odd_residual(dtype(), {kTokens, 501}, random_values(kTokens * 501, 5, dtype())),
      odd_out(dtype(), {kTokens, 501}), odd_weight(DType::kF32, {501}, random_values(501, 6, DType::kF32)),
      ids({kTokens, 2}, std::vector<int32_t>{3, 0, 1, 0, 4, 0, 0, 0, 2, 0});
  const Tensor indices = Tensor::view(ids.tensor().data, DType::kI32, {kTokens});
  expect_to_wait("rms_norm", x, out, [&] { rms_norm(ctx(), {.out = out, .x = x, .weight = weight}); });
  const auto add = [&](const DeviceValues& to, const DeviceValues& partial_sums, const DeviceValues& residual,
                       const DeviceValues& w) {
    expect_to_wait(
        "add_rms_norm", partial_sums, to,
        [&] {
          add_rms_norm(ctx(), {.out = to, .partial_sums = partial_sums, .residual = residual, .weight = w});
        },
        &residual);
  };
  add(out, sums, x, weight);
  add(odd_out, odd_sums, odd_residual, odd_weight);
  expect_to_wait("silu_and_mul", x, half, [&] { silu_and_mul(ctx(), {.out = half, .gate_up = x}); });
  expect_to_wait("gather_rows", ids, out,
                 [&] { gather_rows(ctx(), {.out = out, .x = x, .indices = indices}); });
  expect_to_wait("embedding", ids, out, [&] {
    embedding(ctx(), {.out = out, .token_ids = indices, .table = x.weight(), .first_id = 0});
  });
}

TEST_P(EarlyStartTest, ProductsWait) {
  constexpr int64_t kInputs = 2048, kOutputs = 256;
  const DeviceValues weight(dtype(), {2 * kOutputs, kInputs},
                            random_values(2 * kOutputs * kInputs, 7, dtype(), 0.05f));
  for (const int64_t tokens : {1, 12, 30, 64}) {
    const DeviceValues x(dtype(), {tokens, kInputs}, random_values(size_t(tokens * kInputs), 8, dtype())),
        out(dtype(), {tokens, 2 * kOutputs}), gated(dtype(), {tokens, kOutputs}),
        sums(DType::kF32, {4, tokens, 2 * kOutputs});
    expect_to_wait("linear", x, out,
                   [&] { linear(ctx(), {.out = out, .x = x, .weight = weight.weight(), .bias = {}}); });
    expect_to_wait("linear in segments", x, sums,
                   [&] { linear(ctx(), {.out = sums, .x = x, .weight = weight.weight(), .bias = {}}); });
    expect_to_wait("gated_linear", x, gated, [&] {
      gated_linear(ctx(), {.out = gated, .x = x, .weight = weight.weight(), .bias = {}});
    });
  }
}

TEST_P(EarlyStartTest, AttentionWaits) {
  constexpr int64_t kSeqs = 3, kHeads = 4, kKvHeads = 2, kHeadDim = 128, kBlock = 64, kBlocks = 12;
  constexpr int64_t kRow = (kHeads + 2 * kKvHeads) * kHeadDim,
                    kCache = kBlocks * kBlock * kKvHeads * kHeadDim;
  const DeviceValues qkv(dtype(), {kSeqs, kRow}, random_values(kSeqs * kRow, 9, dtype())),
      k(dtype(), {kCache}, random_values(kCache, 10, dtype())),
      v(dtype(), {kCache}, random_values(kCache, 11, dtype())), out(dtype(), {kSeqs, kHeads * kHeadDim}),
      table(DType::kF32, {700, kHeadDim}, random_values(700 * kHeadDim, 12, DType::kF32)),
      cu({kSeqs + 1}, std::vector<int32_t>{0, 1, 2, 3}), lens({kSeqs}, std::vector<int32_t>{1, 70, 500}),
      blocks({kSeqs, 8}, std::vector<int32_t>{3,  -1, -1, -1, -1, -1, -1, -1, 5, 0, -1, -1,
                                              -1, -1, -1, -1, 1,  2,  4,  6,  7, 8, 9,  10}),
      positions({kSeqs}, std::vector<int32_t>{0, 69, 499}),
      slots({kSeqs}, std::vector<int32_t>{3 * 64, 5, 10 * 64 + 51});
  const auto heads = [&](int64_t first, int64_t count) {
    Tensor t =
        Tensor::view(qkv.tensor().ptr<uint16_t>() + first * kHeadDim, dtype(), {kSeqs, count, kHeadDim});
    t.stride[0] = kRow;
    return t;
  };
  const KvLayer cache{.k = k.tensor().data,
                      .v = v.tensor().data,
                      .dtype = dtype(),
                      .block_size = int(kBlock),
                      .num_kv_heads = int(kKvHeads),
                      .head_dim = int(kHeadDim)};
  const AttentionMeta meta{.cu_seqlens_q = cu,
                           .seq_lens = lens,
                           .block_table = blocks,
                           .slot_mapping = slots,
                           .num_singles = kSeqs};
  const AttentionMeta planned = plan_attention(ctx(), meta, cache, int(kHeads));
  // Both, as in a layer: attention's last keys are those that the op before it stores late.
  expect_to_wait("norm_rope_store and attention", qkv, out, [&] {
    norm_rope_store(ctx(), {.q = heads(0, kHeads),
                            .k = heads(kHeads, kKvHeads),
                            .v = heads(kHeads + kKvHeads, kKvHeads),
                            .positions = positions,
                            .cos_sin = table,
                            .cache = cache,
                            .slot_mapping = slots});
    attention(ctx(), {.out = out, .q = heads(0, kHeads), .cache = cache, .meta = planned, .scale = 0.088f});
  });
}

TEST_P(EarlyStartTest, SamplingWaits) {
  constexpr int64_t kRows = 3, kVocab = 5000;
  std::vector<float> values = random_values(kRows * kVocab, 13, DType::kF32);
  for (float& value : values) value = 1 + value;
  const DeviceValues logits(DType::kF32, {kRows, kVocab}, values), out({kRows, 2}, std::vector<int32_t>(6)),
      temperature(DType::kF32, {kRows}, std::vector<float>{0, 0.7f, 1}),
      top_p(DType::kF32, {kRows}, std::vector<float>{1, 1, 0.5f}),
      min_p(DType::kF32, {kRows}, std::vector<float>{0, 0, 0}),
      ints({kRows, 2}, std::vector<int32_t>{0, 0, 0, 0, 0, 0});
  const Tensor zeros = Tensor::view(ints.tensor().data, DType::kI32, {kRows});
  expect_to_wait("sample", logits, out, [&] {
    sample(ctx(), {.out = Tensor::view(out.tensor().data, DType::kI32, {kRows}),
                   .logits = logits,
                   .temperature = temperature,
                   .top_k = zeros,
                   .top_p = top_p,
                   .min_p = min_p,
                   .seeds = ints,
                   .positions = zeros,
                   .sample_indices = zeros,
                   .num_valid_tokens = kVocab});
  });
}

}  // namespace
}  // namespace nanovllm
