// The paged KV cache in float32 and the tasks of attention.
//
//   keys    [num_blocks][num_kv_heads][groups][head_dim][16]                    lane = position: no sum over lanes
//   values  [num_blocks][num_kv_heads][16 groups][head_dim rounded up to 16]    lane = dimension
//
// groups = block_size / 16, rounded up: sizes that are no multiples of 16 are for studies of the cache, larger and
// slower.
//
// A task is one kv head of one sequence and a few of its query rows (token by token, heads of the group
// inside): they share one pass over keys and values. Who runs a task, and which rows share one, changes no
// bit of a row.
#include <algorithm>

#include "base/assert.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"

namespace nanovllm::cpu {
namespace {

constexpr int kMaxTaskRows = 8;
constexpr int kGroup = 16;

int64_t whole_groups(int64_t n) { return (n + kGroup - 1) / kGroup * kGroup; }

struct CacheStrides {  // in floats
  int64_t k_head, k_block, v_row, v_head, v_block;
};

CacheStrides strides_of(const KvLayer& cache) {
  const int64_t positions = whole_groups(cache.block_size), v_row = whole_groups(cache.head_dim);
  const int64_t k_head = positions * cache.head_dim, v_head = positions * v_row;
  return {k_head, k_head * cache.num_kv_heads, v_row, v_head, v_head * cache.num_kv_heads};
}

// Where a task of one kv head finds its keys and values.
AttentionTask paged_task(const KvLayer& cache, int64_t kv_head, const int32_t* block_table) {
  const CacheStrides strides = strides_of(cache);
  return {.k = static_cast<const float*>(cache.k) + kv_head * strides.k_head,
          .v = static_cast<const float*>(cache.v) + kv_head * strides.v_head,
          .block_table = block_table,
          .groups_per_block = cache.block_size / kGroup,
          .k_group_stride = int64_t(kGroup) * cache.head_dim,
          .k_block_stride = strides.k_block,
          .v_row_stride = strides.v_row,
          .v_block_stride = strides.v_block};
}

// Of the keys and the values of one sequence and head.
int64_t gathered_floats(int64_t num_keys, int64_t head_dim) {
  return whole_groups(num_keys) * (head_dim + whole_groups(head_dim));
}

// A task whose keys and values are copied together, as if in one large block: kernels read whole groups, and blocks
// that do not hold whole groups have them apart.
AttentionTask gather(const AttentionTask& from, int block_size, int64_t num_keys, int head_dim, float* to) {
  static constexpr int32_t kOnlyBlock = 0;
  float* k_to = to;
  float* v_to = to + whole_groups(num_keys) * head_dim;
  const auto place = [&](int64_t position) {
    return position / kGroup * kGroup * head_dim + position % kGroup;
  };
  for (int64_t key = 0; key < num_keys; ++key) {
    const int64_t block = from.block_table[key / block_size], offset = key % block_size;
    const float* k = from.k + block * from.k_block_stride + place(offset);
    const float* v = from.v + block * from.v_block_stride + offset * from.v_row_stride;
    for (int d = 0; d < head_dim; ++d) k_to[place(key) + d * kGroup] = k[d * kGroup];
    std::copy(v, v + from.v_row_stride, v_to + key * from.v_row_stride);
  }
  AttentionTask task = from;
  task.k = k_to;
  task.v = v_to;
  task.block_table = &kOnlyBlock;
  task.groups_per_block = int(whole_groups(num_keys) / kGroup);
  return task;
}

}  // namespace

size_t kv_block_bytes(DType dtype, int block_size, int num_kv_heads, int head_dim) {
  return size_t(whole_groups(block_size)) * size_t(num_kv_heads) * size_t(whole_groups(head_dim)) *
         dtype_bytes(dtype);
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
                       offset / kGroup * kGroup * head_dim + offset % kGroup;
        float* v_out = static_cast<float*>(a.cache.v) + block * strides.v_block + h * strides.v_head +
                       offset * strides.v_row;
        for (int d = 0; d < head_dim; ++d) k_out[d * kGroup] = k[d];
        std::copy(v, v + head_dim, v_out);
      }
    }
  });
}

void copy_blocks(Context&, const CopyBlocksArgs& a) {
  const int32_t* pairs = a.block_copies.ptr<int32_t>();
  for (const KvLayer& layer : a.layers) {
    const CacheStrides strides = strides_of(layer);
    const auto copy = [](void* cache, int64_t from, int64_t to, int64_t block) {
      float* data = static_cast<float*>(cache);
      std::copy(data + from * block, data + (from + 1) * block, data + to * block);
    };
    for (int64_t i = 0; i < a.block_copies.shape[0]; ++i) {
      copy(layer.k, pairs[2 * i], pairs[2 * i + 1], strides.k_block);
      copy(layer.v, pairs[2 * i], pairs[2 * i + 1], strides.v_block);
    }
  }
}

size_t attention_workspace_bytes(const StepLimits& limits) {
  const size_t tasks = Arena::bytes_of(DType::kI32, {limits.num_seqs + 1});
  if (limits.block_size % kGroup == 0) return tasks;
  return tasks + Arena::bytes_of(DType::kF32,
                                 {limits.num_threads,
                                  gathered_floats(limits.max_blocks * limits.block_size, limits.head_dim)});
}

void attention(const Kernels& kernels, Context& ctx, const AttentionArgs& a) {
  ASSERT(a.cache.head_dim <= 256 && kernels.attention_rows <= kMaxTaskRows);
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

  // gathered: null, or room for what gather() writes.
  const auto run_task = [&](int64_t task, float* gathered) {
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
    AttentionTask t =
        paged_task(a.cache, kv_head, a.meta.block_table.ptr<int32_t>() + seq * a.meta.block_table.stride[0]);
    if (gathered) t = gather(t, a.cache.block_size, num_keys[num_rows - 1], int(head_dim), gathered);
    t.q = q;
    t.out = out;
    t.num_keys = num_keys;
    t.num_rows = num_rows;
    t.head_dim = int(head_dim);
    t.scale = a.scale;
    kernels.attention(t);
  };

  const int64_t num_tasks = first_task[num_seqs];
  if (a.cache.block_size % kGroup == 0) {
    // A prompt's last rows see the most keys: they go first.
    ctx.threads->run(num_tasks, [&](int64_t reversed) { run_task(num_tasks - 1 - reversed, nullptr); });
    return;
  }
  const int64_t num_workers = ctx.threads->num_threads();
  const int64_t room = gathered_floats(a.meta.block_table.shape[1] * a.cache.block_size, head_dim);
  float* gathered = ctx.arena.make(DType::kF32, {num_workers, room}).ptr<float>();
  ctx.threads->run(num_workers, [&](int64_t worker) {
    for (int64_t task = worker; task < num_tasks; task += num_workers)
      run_task(task, gathered + worker * room);
  });
}

}  // namespace nanovllm::cpu
