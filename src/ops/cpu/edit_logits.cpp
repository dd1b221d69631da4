// ops/edit_logits.h: a task a row.
#include <cmath>

#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"

namespace nanovllm::cpu {
namespace {

// body(logit, addend, penalty), penalty 0: not penalized
template <class Body>
void for_each_edit(Context& ctx, const EditLogitsArgs& a, Body body) {
  if (!a.rows.defined()) return;
  const int32_t *rows = a.rows.ptr<int32_t>(), *begins = a.begins.ptr<int32_t>(), *ids = a.ids.ptr<int32_t>();
  ctx.threads->run(a.rows.shape[0], [&](int64_t i) {
    float* logits = a.logits.ptr<float>() + rows[i] * a.logits.stride[0];
    for (int32_t e = begins[i]; e < begins[i + 1]; ++e)
      body(logits[ids[e] < 0 ? ~ids[e] : ids[e]], a.addends.ptr<float>()[e],
           ids[e] < 0 ? a.penalties.ptr<float>()[i] : 0.0f);
  });
}

}  // namespace

void edit_logits(Context& ctx, const EditLogitsArgs& a) {
  if (a.masked_rows.defined())
    ctx.threads->run(a.masked_rows.shape[0], [&](int64_t i) {
      float* logits = a.logits.ptr<float>() + a.masked_rows.ptr<int32_t>()[i] * a.logits.stride[0];
      const uint32_t* mask = a.masks.ptr<uint32_t>() + i * a.masks.stride[0];
      for (int64_t id = 0; id < a.logits.shape[1]; ++id)
        if ((mask[id / 32] >> (id % 32) & 1) == 0 && logits[id] < INFINITY) logits[id] = -INFINITY;
    });
  for_each_edit(ctx, a, [](float& logit, float& addend, float penalty) {
    const float before = logit;
    const float penalized = penalty == 0 ? before : before < 0 ? before * penalty : before / penalty;
    logit = penalized + addend;
    addend = before;
  });
}

void restore_logits(Context& ctx, const EditLogitsArgs& a) {
  for_each_edit(ctx, a, [](float& logit, float& addend, float) { logit = addend; });
}

}  // namespace nanovllm::cpu
