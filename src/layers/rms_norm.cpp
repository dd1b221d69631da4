#include "layers/rms_norm.h"

#include "ops/rms_norm.h"

namespace nanovllm {

void RMSNorm::forward(Context& ctx, const Tensor& x, const Tensor& out) const {
  rms_norm(ctx, {.out = out, .x = x, .weight = weight_.values(), .eps = eps_});
}

void RMSNorm::add_forward(Context& ctx, const Tensor& partial_sums, const Tensor& residual,
                          const Tensor& out) const {
  add_rms_norm(ctx, {.out = out,
                     .partial_sums = partial_sums,
                     .residual = residual,
                     .weight = weight_.values(),
                     .eps = eps_});
}

}  // namespace nanovllm
