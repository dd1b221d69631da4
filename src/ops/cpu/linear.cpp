// A product cut into tasks: some panels of one segment, for all tokens.
#include <algorithm>

#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/panels.h"

namespace nanovllm::cpu {
namespace {

// A task's panels stay in the level-2 cache while tile after tile of tokens passes over them.
constexpr int64_t kTaskBytes = 512 << 10;

}  // namespace

void linear(const Kernels& kernels, Context& ctx, const LinearArgs& a) {
  const int64_t num_segments = a.out.rank == 3 ? a.out.shape[0] : 1;
  const int64_t num_tokens = a.x.shape[0], in_features = a.x.shape[1], out_features = a.weight.out_features;
  if (num_tokens == 0) return;
  const int64_t segment_stride = a.out.rank == 3 ? a.out.stride[0] : 0;
  const int64_t row_stride = a.out.stride[size_t(a.out.rank) - 2];
  const int64_t k = in_features / num_segments;
  const int64_t stride = int64_t(panel_bytes(a.weight.dtype, in_features));
  const int64_t line = int64_t(line_bytes(a.weight.dtype));

  // At least two tasks a thread, so that a thread that was held up does not hold up the step.
  const int64_t panels = num_panels(out_features);
  const int64_t by_cache = std::max<int64_t>(1, kTaskBytes / (k * line));
  const int64_t by_threads = std::max<int64_t>(1, panels * num_segments / (2 * ctx.threads->num_threads()));
  const int64_t panels_per_task = std::min(by_cache, by_threads);
  const int64_t tasks_per_segment = (panels + panels_per_task - 1) / panels_per_task;

  ctx.threads->run(num_segments * tasks_per_segment, [&](int64_t index) {
    const int64_t segment = index / tasks_per_segment;
    const int64_t panel = index % tasks_per_segment * panels_per_task;
    const int64_t first_output = panel * kPanelWidth;
    kernels.linear(
        {.dtype = a.weight.dtype,
         .panels = static_cast<const std::byte*>(a.weight.data) + panel * stride + segment * k * line,
         .panel_stride = stride,
         .k = k,
         .num_outputs = std::min(panels_per_task * kPanelWidth, out_features - first_output),
         .x = a.x.ptr<float>() + segment * k,
         .x_stride = a.x.stride[0],
         .num_rows = num_tokens,
         .out = a.out.ptr<float>() + segment * segment_stride + first_output,
         .out_stride = row_stride,
         .bias = a.bias.defined() && segment == 0 ? a.bias.ptr<float>() + first_output : nullptr});
  });
}

}  // namespace nanovllm::cpu
