// Ops that work row by row: norms, rope, SwiGLU, sums, gather.
#include "ops/cpu/rows.h"

#include <cstring>

#include "ops/cpu/cpu_ops.h"

namespace nanovllm::cpu {

void rms_norm(const Kernels& kernels, Context& ctx, const RmsNormArgs& a) {
  const int64_t heads = a.x.rank == 3 ? a.x.shape[1] : 1;
  const int64_t n = a.weight.shape[0];
  const auto row_of = [&](const Tensor& t, int64_t row) {
    return t.ptr<float>() + row / heads * t.stride[0] + (t.rank == 3 ? row % heads * t.stride[1] : 0);
  };
  for_each_row(*ctx.threads, a.x.shape[0] * heads, n, [&](int64_t row) {
    kernels.rms_norm(row_of(a.out, row), row_of(a.x, row), a.weight.ptr<float>(), n, a.eps);
  });
}

void add_rms_norm(const Kernels& kernels, Context& ctx, const AddRmsNormArgs& a) {
  const int num_segments = int(a.partial_sums.shape[0]);
  const int64_t n = a.weight.shape[0];
  for_each_row(*ctx.threads, a.out.shape[0], (num_segments + 2) * n, [&](int64_t row) {
    const float* segments[4] = {};
    for (int s = 0; s < num_segments; ++s)
      segments[s] =
          a.partial_sums.ptr<float>() + s * a.partial_sums.stride[0] + row * a.partial_sums.stride[1];
    kernels.add_rms_norm(a.out.ptr<float>() + row * a.out.stride[0], segments, num_segments,
                         a.residual.ptr<float>() + row * a.residual.stride[0], a.weight.ptr<float>(), n,
                         a.eps);
  });
}

void rope(const Kernels& kernels, Context& ctx, const RopeArgs& a) {
  const int64_t half = a.cos_sin.shape[1] / 2;
  const auto turn = [&](const Tensor& t, int64_t token, const float* cos_sin) {
    for (int64_t h = 0; h < t.shape[1]; ++h)
      kernels.rope(t.ptr<float>() + token * t.stride[0] + h * t.stride[1], cos_sin, half);
  };
  for_each_row(*ctx.threads, a.q.shape[0], (a.q.shape[1] + a.k.shape[1]) * a.q.shape[2], [&](int64_t token) {
    const float* cos_sin = a.cos_sin.ptr<float>() + a.positions.ptr<int32_t>()[token] * a.cos_sin.stride[0];
    turn(a.q, token, cos_sin);
    turn(a.k, token, cos_sin);
  });
}

void silu_and_mul(const Kernels& kernels, Context& ctx, const SiluAndMulArgs& a) {
  const int64_t n = a.out.shape[1];
  for_each_row(*ctx.threads, a.out.shape[0], 4 * n, [&](int64_t row) {
    const float* gate = a.gate_up.ptr<float>() + row * a.gate_up.stride[0];
    kernels.silu_and_mul(a.out.ptr<float>() + row * a.out.stride[0], gate, gate + n, n);
  });
}

void sum_segments(Context& ctx, const SumSegmentsArgs& a) {
  const int64_t n = a.out.shape[1];
  for_each_row(*ctx.threads, a.out.shape[0], 3 * n, [&](int64_t row) {
    const float* s0 = a.partial_sums.ptr<float>() + row * a.partial_sums.stride[1];
    const float* s1 = s0 + a.partial_sums.stride[0];
    float* out = a.out.ptr<float>() + row * a.out.stride[0];
    for (int64_t i = 0; i < n; ++i) out[i] = s0[i] + s1[i];
  });
}

void gather_rows(Context&, const GatherRowsArgs& a) {
  const size_t bytes = size_t(a.x.shape[1]) * dtype_bytes(a.x.dtype);
  for (int64_t i = 0; i < a.out.shape[0]; ++i)
    std::memcpy(a.out.slice(i, 1).data, a.x.slice(a.indices.ptr<int32_t>()[i], 1).data, bytes);
}

}  // namespace nanovllm::cpu
