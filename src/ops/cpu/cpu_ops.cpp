// The CPU backend's table, once for each instruction set, and the choice by cpuid.
#include "ops/cpu/cpu_ops.h"

#include <algorithm>

#include "base/error.h"

namespace nanovllm {
namespace cpu {
namespace {

// A table entry that hands the kernels of one set to an op.
template <const Kernels& (*kKernels)(), auto kOp, class Args>
void with_kernels(Context& ctx, const Args& args) {
  kOp(kKernels(), ctx, args);
}

size_t workspace_bytes(const StepLimits& limits) {
  return std::max(attention_workspace_bytes(limits), sample_workspace_bytes(limits));
}

constexpr std::pair<std::string_view, std::string_view> kKernelTexts[] = {
    {"embedding", "reads a row out of the weight's panels"},
    {"linear", "panels of 32 outputs, each one chain of FMAs; weights widened as they are read"},
    {"rms_norm", "16 lanes, one fixed tree"},
    {"add_rms_norm", "adds partial sums and residual in the same pass"},
    {"rope", "pairs of a head"},
    {"silu_and_mul", "element by element"},
    {"store_kv", "into groups of 16 tokens, as attention reads them"},
    {"copy_blocks", "copies whole blocks"},
    {"attention", "chunks of 128 keys, merged in order"},
    {"sum_segments", "element by element"},
    {"gather_rows", "copies rows"},
    {"edit_logits", "a task a row"},
    {"sample", "one pass for maxima and one for weights; filtered rows through a list"},
    {"top_logprobs", "a task a row; the likeliest by insertion"}};

template <const Kernels& (*kKernels)()>
OpTable make_table() {
  return {
      .backend = "cpu",
      .instruction_set = kKernels().instruction_set,
      .device = &host_device(),
      .default_block_size = 16,
      .default_batched_tokens = 512,  // enough rows to be bound by arithmetic; more would only delay decodes
      .kernels = kKernelTexts,
      .queue = &host_queue(),
      .workspace_bytes = workspace_bytes,
      .weight_bytes = weight_bytes,
      .store_weight = store_weight,
      .kv_block_bytes = kv_block_bytes,
      .embedding = embedding,
      .linear = with_kernels<kKernels, linear, LinearArgs>,
      .rms_norm = with_kernels<kKernels, rms_norm, RmsNormArgs>,
      .add_rms_norm = with_kernels<kKernels, add_rms_norm, AddRmsNormArgs>,
      .rope = with_kernels<kKernels, rope, RopeArgs>,
      .silu_and_mul = with_kernels<kKernels, silu_and_mul, SiluAndMulArgs>,
      .store_kv = store_kv,
      .copy_blocks = copy_blocks,
      .attention = with_kernels<kKernels, attention, AttentionArgs>,
      .sum_segments = sum_segments,
      .gather_rows = gather_rows,
      .edit_logits = edit_logits,
      .restore_logits = restore_logits,
      .sample = with_kernels<kKernels, sample, SampleArgs>,
      .top_logprobs = with_kernels<kKernels, top_logprobs, TopLogprobsArgs>,
      .token_logprobs = token_logprobs};
}

}  // namespace

KernelList runnable_kernels() {
  KernelList list{};
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");  // with F16C on every such processor
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    list.sets[list.count++] = &kernels_avx512();
  if (avx2) list.sets[list.count++] = &kernels_avx2();
#endif
  list.sets[list.count++] = &kernels_portable();
  return list;
}

}  // namespace cpu

const OpTable& cpu_ops() { return cpu_ops(cpu::runnable_kernels().sets[0]->instruction_set); }

const OpTable& cpu_ops(std::string_view instruction_set) {
  const cpu::KernelList list = cpu::runnable_kernels();
  const auto runnable = [&](const OpTable& table) {
    for (int i = 0; i < list.count; ++i)
      if (list.sets[i]->instruction_set == table.instruction_set)
        return table.instruction_set == instruction_set;
    return false;
  };
  static const OpTable portable = cpu::make_table<cpu::kernels_portable>();
  if (runnable(portable)) return portable;
#if defined(__x86_64__)
  static const OpTable avx2 = cpu::make_table<cpu::kernels_avx2>(),
                       avx512 = cpu::make_table<cpu::kernels_avx512>();
  if (runnable(avx2)) return avx2;
  if (runnable(avx512)) return avx512;
#endif
  fail(ErrorKind::kConfig, "instruction set: is ", instruction_set,
       ", want one that this processor runs, such as ", list.sets[0]->instruction_set);
}

}  // namespace nanovllm
