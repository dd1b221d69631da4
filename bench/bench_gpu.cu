// The CUDA backend's ops one by one, at the shapes of Qwen3-0.6B in bf16: times of many calls in a graph, so that launches from
// the host do not count. Weights, sums and caches of keys change places, so that the L2 cache does not help; what SwiGLU and
// sampling read is there, as it is behind the product that wrote it. Floors: bytes at the rate of reading
// HBM (or a copy, where as much is written), products at what the tensor cores give.
//
//   bench_gpu RESULT.json --commit C
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>

#include "ops/cuda/cuda_common.cuh"
#include "ops/cuda/cuda_ops.h"
#include "parallel/thread_ranks.h"
#include "report.h"

namespace nanovllm::bench {
namespace {

constexpr double kReadRate = 4.68e12, kCopyRate = 4.25e12, kFlopRate = 790e12;  // of one H200
constexpr DType kT = DType::kBF16;
constexpr int64_t kHidden = 1024;

// The four segments and the residual added, and no more: what add_rms_norm would do first if it were two ops.
__global__ void add_kernel(__nv_bfloat16* residual, const float* sums, int64_t count) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= count) return;
  const float sum = (sums[i] + sums[count + i]) + (sums[2 * count + i] + sums[3 * count + i]);
  residual[i] = __float2bfloat16_rn(sum + __bfloat162float(residual[i]));
}

class Bench {
 public:
  Bench() : ops_(cuda_ops(kT)), ranks_(1), arena_(*ops_.device, size_t{1} << 30), state_(ops_.make_state()) {}
  ~Bench() { ops_.release_state(state_); }

  Context ctx() { return {.ops = ops_, .arena = arena_, .comm = ranks_.comm(0), .state = state_}; }

  // Random small numbers; int32: zeros.
  Tensor make(DType dtype, std::initializer_list<int64_t> shape) {
    Tensor tensor = Tensor::view(nullptr, dtype, shape);
    const size_t count = size_t(tensor.num_elements());
    buffers_.emplace_back(*ops_.device, count * dtype_bytes(dtype), "benchmark");
    tensor.data = buffers_.back().data();
    if (dtype == DType::kI32) return tensor;
    std::vector<std::byte> bytes(count * dtype_bytes(dtype));
    uint64_t random = 1;
    for (size_t i = 0; i < count; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const float value = float(int32_t(random >> 32)) * 0x1p-33f;
      const uint16_t half = float_to_bf16(value);
      std::memcpy(&bytes[i * dtype_bytes(dtype)],
                  dtype == DType::kF32 ? static_cast<const void*>(&value) : &half, dtype_bytes(dtype));
    }
    ops_.device->upload(tensor.data, bytes.data(), bytes.size());
    return tensor;
  }
  Tensor make_ints(std::initializer_list<int64_t> shape, const std::vector<int32_t>& values) {
    const Tensor tensor = make(DType::kI32, shape);
    ops_.device->upload(tensor.data, values.data(), values.size() * sizeof(int32_t));
    return tensor;
  }
  Tensor make_floats(std::initializer_list<int64_t> shape, const std::vector<float>& values) {
    const Tensor tensor = make(DType::kF32, shape);
    ops_.device->upload(tensor.data, values.data(), size_t(tensor.num_elements()) * sizeof(float));
    return tensor;
  }
  void free_all() { buffers_.clear(); }

  // Microseconds a call: call(i) for i below num_calls in one graph, replayed.
  void time(Report& report, const std::string& name, int num_calls, double floor_us,
            const std::function<void(Context&, int)>& call) {
    Context context = ctx();
    const cudaStream_t stream = cuda::stream_of(context);
    for (int i = 0; i < num_calls; ++i) call(context, i);  // algorithms are chosen, kernels loaded
    cuda::check(cudaStreamSynchronize(stream), "warm-up");
    cudaGraph_t graph = nullptr;
    cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < num_calls; ++i) call(context, i);
    cuda::check(cudaStreamEndCapture(stream, &graph), "capture");
    cudaGraphExec_t exec = nullptr;
    cuda::check(cudaGraphInstantiate(&exec, graph, 0), "graph");
    cudaEvent_t begin = nullptr, end = nullptr;
    cuda::check(cudaEventCreate(&begin), "event");
    cuda::check(cudaEventCreate(&end), "event");
    std::vector<double> microseconds;
    for (int run = 0; run < 12; ++run) {
      cuda::check(cudaEventRecord(begin, stream), "event");
      cuda::check(cudaGraphLaunch(exec, stream), "graph");
      cuda::check(cudaEventRecord(end, stream), "event");
      cuda::check(cudaEventSynchronize(end), "graph");
      float ms = 0;
      cuda::check(cudaEventElapsedTime(&ms, begin, end), "event");
      if (run >= 2) microseconds.push_back(1000 * double(ms) / num_calls);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    report.add(name, microseconds, "us", floor_us);
  }

 private:
  const OpTable& ops_;
  ThreadRanks ranks_;
  Arena arena_;
  void* state_;
  std::vector<DeviceBuffer> buffers_;
};

double us(double bytes, double rate) { return 1e6 * bytes / rate; }

// Four float32 segments and the residual in, residual and normalised rows out.
void time_add_rms_norm(Bench& bench, Report& report) {
  for (const int64_t tokens : {1, 64, 256, 8192}) {
    const int copies = tokens < 8192 ? 8 : 2;
    const Tensor weight = bench.make(DType::kF32, {kHidden});
    std::vector<Tensor> sums, residual, out;
    for (int i = 0; i < copies; ++i) {
      sums.push_back(bench.make(DType::kF32, {4, tokens, kHidden}));
      residual.push_back(bench.make(kT, {tokens, kHidden}));
      out.push_back(bench.make(kT, {tokens, kHidden}));
    }
    const std::string rows = ".rows" + std::to_string(tokens);
    const double elements = double(tokens * kHidden);
    bench.time(report, "gpu.add_rms_norm" + rows, 32, us(22 * elements, kCopyRate), [&](Context& ctx, int i) {
      const size_t c = size_t(i % copies);
      add_rms_norm(ctx, {.out = out[c], .partial_sums = sums[c], .residual = residual[c], .weight = weight});
    });
    bench.time(report, "gpu.add_rms_norm.apart" + rows, 32, us(24 * elements, kCopyRate),
               [&](Context& ctx, int i) {
                 const size_t c = size_t(i % copies);
                 add_kernel<<<cuda::blocks_for(tokens * kHidden, 256), 256, 0, cuda::stream_of(ctx)>>>(
                     residual[c].ptr<__nv_bfloat16>(), sums[c].ptr<float>(), tokens * kHidden);
                 rms_norm(ctx, {.out = out[c], .x = residual[c], .weight = weight});
               });
    bench.free_all();
  }
}

void time_silu_and_mul(Bench& bench, Report& report) {
  constexpr int64_t kWidth = 3072;
  for (const int64_t tokens : {1, 64, 256, 8192}) {
    const Tensor gate_up = bench.make(kT, {tokens, 2 * kWidth}), out = bench.make(kT, {tokens, kWidth});
    bench.time(report, "gpu.silu_and_mul.rows" + std::to_string(tokens), 32,
               us(6 * double(tokens * kWidth), kCopyRate),
               [&](Context& ctx, int) { silu_and_mul(ctx, {.out = out, .gate_up = gate_up}); });
    bench.free_all();
  }
}

// The largest of each row of logits, and draws with and without filters. Logits are nearly normal with a deviation of 2.5, so that
// top_p keeps some ten thousand ids: more than those of real models, whose nucleus is small.
void time_sample(Bench& bench, Report& report) {
  constexpr int64_t kVocab = 151936;
  struct Case {
    const char* name;
    float temperature;
    int32_t top_k;
    float top_p;
  };
  std::vector<float> values(size_t(256 * kVocab));
  uint64_t random = 1;
  for (float& value : values) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    float sum = 0;  // of four uniform numbers
    for (int shift = 0; shift < 64; shift += 16) sum += float(random >> shift & 0xFFFF) * 0x1p-16f - 0.5f;
    value = 4.33f * sum;
  }
  for (const int64_t rows : {1, 64, 256}) {
    const auto ints = [&](int32_t value) {
      return bench.make_ints({rows}, std::vector<int32_t>(size_t(rows), value));
    };
    const auto floats = [&](float value) {
      return Tensor::view(ints(std::bit_cast<int32_t>(value)).data, DType::kF32, {rows});
    };
    const Tensor logits = bench.make_floats({rows, kVocab}, values), out = ints(0), zeros = ints(0),
                 seeds = bench.make_ints({rows, 2}, std::vector<int32_t>(size_t(2 * rows), 0)),
                 no_min_p = floats(0);
    for (const Case& c : {Case{"greedy", 0, 0, 1}, Case{"draw", 0.6f, 0, 1}, Case{"top_k50", 1, 50, 1},
                          Case{"top_p90", 1, 0, 0.9f}, Case{"top_k50_top_p90", 1, 50, 0.9f}}) {
      const Tensor temperature = floats(c.temperature), top_k = ints(c.top_k), top_p = floats(c.top_p);
      bench.time(report, "gpu.sample." + std::string(c.name) + ".rows" + std::to_string(rows), 8,
                 us(4 * double(rows * kVocab), kReadRate), [&](Context& ctx, int) {
                   sample(ctx, {.out = out,
                                .logits = logits,
                                .temperature = temperature,
                                .top_k = top_k,
                                .top_p = top_p,
                                .min_p = no_min_p,
                                .seeds = seeds,
                                .positions = zeros,
                                .sample_indices = zeros,
                                .num_valid_tokens = kVocab});
                 });
    }
    bench.free_all();
  }
}

void time_linear(Bench& bench, Report& report) {
  struct Shape {
    const char* name;
    int64_t outputs, inputs, segments;
  };
  for (const Shape& s :
       {Shape{"qkv", 4096, 1024, 1}, Shape{"o", 1024, 2048, 4}, Shape{"gate_up", 6144, 1024, 1},
        Shape{"down", 1024, 3072, 4}, Shape{"lm_head", 151936, 1024, 1}}) {
    const int copies = s.outputs > 100000 ? 1 : 20;  // beyond the L2 cache
    std::vector<Tensor> weights;
    for (int i = 0; i < copies; ++i) weights.push_back(bench.make(kT, {s.outputs, s.inputs}));
    for (const int64_t tokens : {1, 8, 16, 32, 64, 256, 2048, 4096}) {
      if (tokens > 256 && s.outputs > 100000) continue;
      const DType out_dtype = s.segments > 1 || s.outputs > 100000 ? DType::kF32 : kT;
      const Tensor x = bench.make(kT, {tokens, s.inputs});
      const Tensor out = s.segments > 1 ? bench.make(out_dtype, {s.segments, tokens, s.outputs})
                                        : bench.make(out_dtype, {tokens, s.outputs});
      const double products = double(s.outputs * s.inputs);
      const double floor =
          std::max(us(2 * products, kReadRate), us(2 * products * double(tokens), kFlopRate));
      bench.time(report, "gpu.linear." + std::string(s.name) + ".m" + std::to_string(tokens), copies, floor,
                 [&](Context& ctx, int i) {
                   const Tensor& w = weights[size_t(i)];
                   linear(ctx, {.out = out, .x = x, .weight = {w.data, kT, s.outputs, s.inputs}, .bias = {}});
                 });
    }
    bench.free_all();
  }
}

// Decodes of as many sequences, or one prompt; heads as time_attention has them.
void time_norm_rope_store(Bench& bench, Report& report) {
  constexpr int64_t kHeads = 16, kKvHeads = 8, kHeadDim = 128, kWidth = (kHeads + 2 * kKvHeads) * kHeadDim;
  for (const int64_t tokens : {1, 64, 256, 4096}) {
    const Tensor norm = bench.make(DType::kF32, {kHeadDim}),
                 cos_sin = bench.make(DType::kF32, {8192, kHeadDim}),
                 k = bench.make(kT, {8192, kKvHeads * kHeadDim}),
                 v = bench.make(kT, {8192, kKvHeads * kHeadDim});
    std::vector<int32_t> in_order(static_cast<size_t>(tokens));
    std::iota(in_order.begin(), in_order.end(), 0);
    const Tensor order = bench.make_ints({tokens}, in_order);
    std::vector<Tensor> qkv;
    for (int i = 0; i < 4; ++i) qkv.push_back(bench.make(kT, {tokens, kWidth}));
    const KvLayer layer{.k = k.data,
                        .v = v.data,
                        .dtype = kT,
                        .num_blocks = 128,
                        .block_size = 64,
                        .num_kv_heads = int(kKvHeads),
                        .head_dim = int(kHeadDim)};
    bench.time(report, "gpu.norm_rope_store.rows" + std::to_string(tokens), 32,
               us(4 * double(tokens * kWidth), kCopyRate), [&](Context& ctx, int i) {
                 const auto heads = [&](int64_t first, int64_t count) {
                   Tensor part = Tensor::view(qkv[size_t(i % 4)].ptr<uint16_t>() + first * kHeadDim, kT,
                                              {tokens, count, kHeadDim});
                   part.stride[0] = kWidth;
                   return part;
                 };
                 norm_rope_store(ctx, {.q = heads(0, kHeads),
                                       .k = heads(kHeads, kKvHeads),
                                       .v = heads(kHeads + kKvHeads, kKvHeads),
                                       .q_weight = norm,
                                       .k_weight = norm,
                                       .positions = order,
                                       .cos_sin = cos_sin,
                                       .cache = layer,
                                       .slot_mapping = order});
               });
    bench.free_all();
  }
}

// Sequences of one length, 16 query heads on 8 kv heads of 128, blocks of 64 tokens in a random order.
void time_attention(Bench& bench, Report& report) {
  constexpr int64_t kHeads = 16, kKvHeads = 8, kHeadDim = 128, kBlock = 64;
  struct Case {
    int64_t seqs, queries, keys;
  };
  for (const Case& c : {Case{1, 1, 128}, Case{1, 1, 1024}, Case{8, 1, 1024}, Case{64, 1, 256},
                        Case{64, 1, 1024}, Case{256, 1, 256}, Case{256, 1, 1024}, Case{1, 1, 8192},
                        Case{32, 128, 128}, Case{1, 1024, 1024}, Case{1, 4096, 4096}, Case{1, 2048, 16384}}) {
    const int64_t blocks_each = (c.keys + kBlock - 1) / kBlock, num_blocks = c.seqs * blocks_each;
    std::vector<int32_t> table(static_cast<size_t>(num_blocks)), cu, lens(size_t(c.seqs), int32_t(c.keys));
    for (size_t i = 0; i < table.size(); ++i) table[i] = int32_t(i * 7919 % table.size());
    for (int64_t i = 0; i <= c.seqs; ++i) cu.push_back(int32_t(i * c.queries));
    const double kv_bytes = double(c.seqs * c.keys * kKvHeads * kHeadDim * 4);
    const int copies = int(std::clamp(400e6 / kv_bytes, 1.0, 16.0));  // of the cache: layers
    std::vector<Tensor> k, v;
    for (int i = 0; i < copies; ++i) {
      k.push_back(bench.make(kT, {num_blocks * kBlock, kKvHeads * kHeadDim}));
      v.push_back(bench.make(kT, {num_blocks * kBlock, kKvHeads * kHeadDim}));
    }
    const int64_t tokens = c.seqs * c.queries;
    const Tensor q = bench.make(kT, {tokens, kHeads, kHeadDim}),
                 out = bench.make(kT, {tokens, kHeads * kHeadDim});
    const AttentionMeta meta{.cu_seqlens_q = bench.make_ints({c.seqs + 1}, cu),
                             .seq_lens = bench.make_ints({c.seqs}, lens),
                             .block_table = bench.make_ints({c.seqs, blocks_each}, table),
                             .slot_mapping = {},
                             .num_singles = c.queries == 1 ? c.seqs : 0};
    // A query sees the keys up to its own.
    const double seen = double(c.queries) * (double(c.keys) - double(c.queries - 1) / 2) * double(c.seqs);
    const double floor =
        std::max(us(kv_bytes, kReadRate), us(4 * seen * double(kHeads * kHeadDim), kFlopRate));
    std::string name = "gpu.attention.";
    name += c.queries == 1 ? "decode" : "prefill";
    if (c.queries == 1 || c.seqs > 1) name += ".b" + std::to_string(c.seqs);
    if (c.queries > 1) name += ".q" + std::to_string(c.queries);
    std::vector<KvLayer> layers;
    for (int i = 0; i < copies; ++i)
      layers.push_back({.k = k[size_t(i)].data,
                        .v = v[size_t(i)].data,
                        .dtype = kT,
                        .num_blocks = int(num_blocks),
                        .block_size = int(kBlock),
                        .num_kv_heads = int(kKvHeads),
                        .head_dim = int(kHeadDim)});
    Context planning = bench.ctx();
    const Arena::Scope scope(planning.arena);
    const AttentionMeta planned = plan_attention(planning, meta, layers[0], int(kHeads));
    bench.time(report, name + ".ctx" + std::to_string(c.keys), copies, floor, [&](Context& ctx, int i) {
      attention(ctx, {.out = out, .q = q, .cache = layers[size_t(i)], .meta = planned, .scale = 0.088f});
    });
    bench.free_all();
  }
}

void measure(const std::string& result, const std::string& commit) {
  Bench bench;
  Report report;
  time_add_rms_norm(bench, report);
  time_silu_and_mul(bench, report);
  time_sample(bench, report);
  time_norm_rope_store(bench, report);
  time_linear(bench, report);
  time_attention(bench, report);
  report.write(result, cuda_device_name(), commit, "build/cuda/bench/bench_gpu", "");
}

}  // namespace
}  // namespace nanovllm::bench

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() != 3 || words[1] != "--commit") {
    std::cerr << "usage: bench_gpu RESULT.json --commit C\n";
    return 2;
  }
  return nanovllm::bench::run_benchmark("bench_gpu", [&] { nanovllm::bench::measure(words[0], words[2]); });
}
