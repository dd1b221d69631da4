// The paged KV cache in float32 and the tasks of attention.
//
//   keys    [num_blocks][num_kv_heads][block_size / 16][head_dim][16]          lane = position: no sum over lanes
//   values  [num_blocks][num_kv_heads][block_size][head_dim rounded up to 16]  lane = dimension
//
// A task is one kv head of one sequence and a few of its query rows (token by token, heads of the group
// inside): they share one pass over keys and values. Who runs a task, and which rows share one, changes no
// bit of a row.
#include <algorithm>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"

namespace nanovllm::cpu {
namespace {

constexpr int kMaxTaskRows = 8;

struct CacheStrides {  // in floats
  int64_t k_head, k_block, v_row, v_head, v_block;
};

CacheStrides strides_of(const KvLayer& cache) {
  const int64_t v_row = (cache.head_dim + 15) / 16 * 16;
  const int64_t k_head = int64_t(cache.block_size) * cache.head_dim, v_head = cache.block_size * v_row;
  return {k_head, k_head * cache.num_kv_heads, v_row, v_head, v_head * cache.num_kv_heads};
}

}  // namespace

size_t kv_block_bytes(DType dtype, int block_size, int num_kv_heads, int head_dim) {
  return size_t(block_size) * size_t(num_kv_heads) * size_t((head_dim + 15) / 16 * 16) * dtype_bytes(dtype);
}

void store_kv(Context& ctx, const StoreKvArgs& a) {
  const CacheStrides strides = strides_of(a.cache);
  const int head_dim = a.cache.head_dim;
  ctx.threads->run(a.k.shape[0] > 16 ? a.k.shape[1] : 1, [&](int64_t task) {
    const int64_t first = a.k.shape[0] > 16 ? task : 0, last = a.k.shape[0] > 16 ? task + 1 : a.k.shape[1];
    for (int64_t t = 0; t < a.k.shape[0]; ++t) {
      const int32_t slot = a.slot_mapping.ptr<int32_t>()[t];
      if (slot < 0) continue;
      const int64_t block = slot / a.cache.block_size, offset = slot % a.cache.block_size;
      for (int64_t h = first; h < last; ++h) {
        const float* k = a.k.ptr<float>() + t * a.k.stride[0] + h * a.k.stride[1];
        const float* v = a.v.ptr<float>() + t * a.v.stride[0] + h * a.v.stride[1];
        float* k_out = static_cast<float*>(a.cache.k) + block * strides.k_block + h * strides.k_head +
                       offset / 16 * 16 * head_dim + offset % 16;
        float* v_out = static_cast<float*>(a.cache.v) + block * strides.v_block + h * strides.v_head +
                       offset * strides.v_row;
        for (int d = 0; d < head_dim; ++d) k_out[d * 16] = k[d];
        std::copy(v, v + head_dim, v_out);
      }
    }
  });
}

void attention(const Kernels& kernels, Context& ctx, const AttentionArgs& a) {
  ASSERT(a.cache.head_dim <= 256 && kernels.attention_rows <= kMaxTaskRows);
  const CacheStrides strides = strides_of(a.cache);
  const int64_t num_seqs = a.meta.seq_lens.shape[0];
  const int64_t num_kv_heads = a.cache.num_kv_heads, group = a.q.shape[1] / num_kv_heads,
                head_dim = a.q.shape[2];
  const int32_t* cu_seqlens_q = a.meta.cu_seqlens_q.ptr<int32_t>();

  // Tasks of sequence i and all kv heads: [first_task[i], first_task[i + 1]).
  const Arena::Scope scope(ctx.arena);
  int32_t* first_task = ctx.arena.make(DType::kI32, {num_seqs + 1}).ptr<int32_t>();
  first_task[0] = 0;
  for (int64_t i = 0; i < num_seqs; ++i) {
    const int64_t rows = (cu_seqlens_q[i + 1] - cu_seqlens_q[i]) * group;
    const int64_t tiles = (rows + kernels.attention_rows - 1) / kernels.attention_rows;
    first_task[i + 1] = int32_t(first_task[i] + tiles * num_kv_heads);
  }

  const int64_t num_tasks = first_task[num_seqs];
  ctx.threads->run(num_tasks, [&](int64_t reversed) {
    const int64_t task = num_tasks - 1 - reversed;  // a prompt's last rows see the most keys: they go first
    const int64_t seq =
        std::upper_bound(first_task, first_task + num_seqs + 1, int32_t(task)) - first_task - 1;
    const int64_t tiles = (first_task[seq + 1] - first_task[seq]) / num_kv_heads;
    const int64_t kv_head = (task - first_task[seq]) / tiles, tile = (task - first_task[seq]) % tiles;
    const int64_t num_queries = cu_seqlens_q[seq + 1] - cu_seqlens_q[seq];
    const int64_t seq_len = a.meta.seq_lens.ptr<int32_t>()[seq];
    const int64_t first_row = tile * kernels.attention_rows;
    const int num_rows = int(std::min<int64_t>(kernels.attention_rows, num_queries * group - first_row));

    const float* q[kMaxTaskRows];
    float* out[kMaxTaskRows];
    int64_t num_keys[kMaxTaskRows];
    for (int r = 0; r < num_rows; ++r) {
      const int64_t query = (first_row + r) / group, head = kv_head * group + (first_row + r) % group;
      const int64_t token = cu_seqlens_q[seq] + query;
      q[r] = a.q.ptr<float>() + token * a.q.stride[0] + head * a.q.stride[1];
      out[r] = a.out.ptr<float>() + token * a.out.stride[0] + head * head_dim;
      num_keys[r] = seq_len - num_queries + query + 1;
    }
    kernels.attention({.q = q,
                       .out = out,
                       .num_keys = num_keys,
                       .num_rows = num_rows,
                       .head_dim = int(head_dim),
                       .scale = a.scale,
                       .k = static_cast<const float*>(a.cache.k) + kv_head * strides.k_head,
                       .v = static_cast<const float*>(a.cache.v) + kv_head * strides.v_head,
                       .block_table = a.meta.block_table.ptr<int32_t>() + seq * a.meta.block_table.stride[0],
                       .groups_per_block = a.cache.block_size / 16,
                       .k_group_stride = 16 * head_dim,
                       .k_block_stride = strides.k_block,
                       .v_row_stride = strides.v_row,
                       .v_block_stride = strides.v_block});
  });
}

}  // namespace nanovllm::cpu
