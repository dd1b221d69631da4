// ops/edit_logits.h.
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/launch.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kThreads = 256;

// Grid: (num_masked, parts).
__global__ void mask_kernel(float* logits, const int32_t* rows, const uint32_t* masks, int64_t vocab_size,
                            int64_t logits_stride, int64_t masks_stride) {
  start_early();
  float* row = logits + rows[blockIdx.x] * logits_stride;
  const uint32_t* mask = masks + blockIdx.x * masks_stride;
  for (int64_t id = blockIdx.y * kThreads + threadIdx.x; id < vocab_size; id += gridDim.y * int64_t(kThreads))
    if ((mask[id / 32] >> (id % 32) & 1) == 0 && row[id] < INFINITY) row[id] = -INFINITY;
}

struct EditParams {
  float* logits;
  const int32_t *rows, *begins, *ids;
  const float* penalties;
  float* addends;
  int64_t logits_stride;
};

// Grid: num_edited.
template <bool kRestores>
__global__ void edit_kernel(EditParams p) {
  start_early();
  const int64_t i = blockIdx.x;
  float* logits = p.logits + p.rows[i] * p.logits_stride;
  for (int e = p.begins[i] + int(threadIdx.x); e < p.begins[i + 1]; e += kThreads) {
    const int32_t id = p.ids[e];
    float& logit = logits[id < 0 ? ~id : id];
    if (kRestores) {
      logit = p.addends[e];
      continue;
    }
    const float before = logit, penalty = p.penalties[i];
    const float penalized = id >= 0 ? before : before < 0 ? before * penalty : before / penalty;
    logit = penalized + p.addends[e];
    p.addends[e] = before;
  }
}

template <bool kRestores>
void launch_edits(Context& ctx, const EditLogitsArgs& a) {
  if (!a.rows.defined()) return;
  launch_early(ctx, edit_kernel<kRestores>, unsigned(a.rows.shape[0]), kThreads, 0,
               EditParams{.logits = a.logits.ptr<float>(),
                          .rows = a.rows.ptr<int32_t>(),
                          .begins = a.begins.ptr<int32_t>(),
                          .ids = a.ids.ptr<int32_t>(),
                          .penalties = a.penalties.ptr<float>(),
                          .addends = a.addends.ptr<float>(),
                          .logits_stride = a.logits.stride[0]});
  check_launch("edit_logits");
}

}  // namespace

void edit_logits(Context& ctx, const EditLogitsArgs& a) {
  if (a.masked_rows.defined()) {
    const dim3 grid{unsigned(a.masked_rows.shape[0]), 16};
    launch_early(ctx, mask_kernel, grid, kThreads, 0, a.logits.ptr<float>(), a.masked_rows.ptr<int32_t>(),
                 a.masks.ptr<uint32_t>(), a.logits.shape[1], a.logits.stride[0], a.masks.stride[0]);
    check_launch("edit_logits");
  }
  launch_edits<false>(ctx, a);
}

void restore_logits(Context& ctx, const EditLogitsArgs& a) { launch_edits<true>(ctx, a); }

}  // namespace nanovllm::cuda
