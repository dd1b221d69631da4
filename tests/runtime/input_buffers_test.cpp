#include "runtime/input_buffers.h"

#include <gtest/gtest.h>

#include "ops/cpu/cpu_ops.h"

namespace nanovllm {
namespace {

constexpr BatchLimits kLimits{.max_num_tokens = 6, .max_num_seqs = 3, .max_num_sampled = 3, .max_blocks = 4};

// Arrays of distinct numbers, of this many tokens, sequences and sampled rows.
Batch numbered_batch(int tokens, int seqs, int rows, int max_blocks) {
  int32_t next = 1;
  const auto numbers = [&](int count) {
    std::vector<int32_t> array;
    for (int i = 0; i < count; ++i) array.push_back(next++);
    return array;
  };
  const auto floats = [&](int count) {
    const std::vector<int32_t> array = numbers(count);
    return std::vector<float>(array.begin(), array.end());
  };
  Batch b;
  b.token_ids = numbers(tokens);
  b.positions = numbers(tokens);
  b.slot_mapping = numbers(tokens);
  b.cu_seqlens_q = numbers(seqs + 1);
  b.seq_lens = numbers(seqs);
  b.block_table = numbers(seqs * max_blocks);
  b.max_blocks = max_blocks;
  b.block_copies = numbers(2 * seqs);
  b.logits_indices = numbers(rows);
  b.temperature = floats(rows);
  b.top_k = numbers(rows);
  b.top_p = floats(rows);
  b.min_p = floats(rows);
  b.seeds = numbers(2 * rows);
  b.sample_positions = numbers(rows);
  b.sample_indices = numbers(rows);
  return b;
}

template <class T>
void expect_array(const Tensor& tensor, const std::vector<T>& want, const std::string& shape) {
  EXPECT_EQ(to_string(tensor), shape + (std::is_same_v<T, float> ? " f32" : " i32"));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % 64, 0u);
  std::vector<T> got(size_t(tensor.num_elements()));
  if (!got.empty()) host_device().download(got.data(), tensor.data, got.size() * sizeof(T));
  EXPECT_EQ(got, want);
}

void expect_batch(const InputBuffers& buffers, const Batch& b) {
  const auto size = [](int n) { return "[" + std::to_string(n) + "]"; };
  const std::string tokens = size(b.num_tokens()), rows = size(b.num_sampled());
  const ModelInput& in = buffers.model_input();
  expect_array(in.token_ids, b.token_ids, tokens);
  expect_array(in.positions, b.positions, tokens);
  expect_array(in.attn.slot_mapping, b.slot_mapping, tokens);
  expect_array(in.attn.cu_seqlens_q, b.cu_seqlens_q, size(b.num_seqs() + 1));
  expect_array(in.attn.seq_lens, b.seq_lens, size(b.num_seqs()));
  expect_array(in.attn.block_table, b.block_table,
               "[" + std::to_string(b.num_seqs()) + ", " + std::to_string(b.max_blocks) + "]");
  expect_array(buffers.block_copies(), b.block_copies, "[" + std::to_string(b.num_block_copies()) + ", 2]");
  expect_array(in.logits_indices, b.logits_indices, rows);
  const SampleArgs& sample = buffers.sample_args();
  expect_array(sample.temperature, b.temperature, rows);
  expect_array(sample.top_k, b.top_k, rows);
  expect_array(sample.top_p, b.top_p, rows);
  expect_array(sample.min_p, b.min_p, rows);
  expect_array(sample.seeds, b.seeds, "[" + std::to_string(b.num_sampled()) + ", 2]");
  expect_array(sample.positions, b.sample_positions, rows);
  expect_array(sample.sample_indices, b.sample_indices, rows);
}

TEST(InputBuffers, EveryArrayArrives) {
  InputBuffers buffers(cpu_ops(), nullptr, kLimits);
  const Batch batch = numbered_batch(5, 2, 1, 3);
  buffers.upload(batch);
  expect_batch(buffers, batch);
}

TEST(InputBuffers, TheLargestStepFitsAndTheNextReplacesIt) {
  InputBuffers buffers(cpu_ops(), nullptr, kLimits);
  for (const Batch& batch :
       {numbered_batch(6, 3, 3, 4), numbered_batch(1, 1, 1, 1), numbered_batch(6, 3, 3, 4)}) {
    buffers.upload(batch);
    expect_batch(buffers, batch);
  }
}

TEST(InputBuffers, NothingNeedBeSampled) {
  InputBuffers buffers(cpu_ops(), nullptr, kLimits);
  const Batch batch = numbered_batch(4, 1, 0, 1);
  buffers.upload(batch);
  expect_batch(buffers, batch);
}

// Two decodes as three: the third writes nowhere and sees nothing, and all lies where it lies for three.
TEST(InputBuffers, DecodesArePaddedAndKeepTheirPlaces) {
  InputBuffers buffers(cpu_ops(), nullptr, kLimits);
  Batch two = numbered_batch(2, 2, 2, 3), three = numbered_batch(3, 3, 3, 4);
  two.block_copies.clear();
  three.block_copies.clear();
  buffers.upload_decodes(three, 3);
  const ModelInput whole = buffers.model_input();
  const SampleArgs whole_sample = buffers.sample_args();
  buffers.upload_decodes(two, 3);
  const ModelInput& in = buffers.model_input();
  const auto with = [](auto array, std::initializer_list<typename decltype(array)::value_type> more) {
    array.insert(array.end(), more);
    return array;
  };
  expect_array(in.token_ids, with(two.token_ids, {0}), "[3]");
  expect_array(in.positions, with(two.positions, {0}), "[3]");
  expect_array(in.attn.slot_mapping, with(two.slot_mapping, {-1}), "[3]");
  expect_array(in.attn.cu_seqlens_q, std::vector<int32_t>{0, 1, 2, 3}, "[4]");
  expect_array(in.attn.seq_lens, with(two.seq_lens, {0}), "[3]");
  expect_array(in.logits_indices, std::vector<int32_t>{0, 1, 2}, "[3]");
  EXPECT_EQ(in.attn.num_singles, 3);
  const SampleArgs& sample = buffers.sample_args();
  expect_array(sample.temperature, with(two.temperature, {0.0f}), "[3]");
  expect_array(sample.top_k, with(two.top_k, {0}), "[3]");
  expect_array(sample.top_p, with(two.top_p, {1.0f}), "[3]");
  expect_array(sample.min_p, with(two.min_p, {0.0f}), "[3]");
  expect_array(sample.seeds, with(two.seeds, {0, 0}), "[3, 2]");
  EXPECT_EQ(to_string(in.attn.block_table), "[3, 4] i32");
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t b = 0; b < 3; ++b)
      EXPECT_EQ(in.attn.block_table[i].ptr<int32_t>()[b], two.block_table[size_t(i * 3 + b)]);
  EXPECT_FALSE(buffers.token_rows().defined());
  two.token_rows = {4, 2};
  buffers.upload_decodes(two, 3);
  expect_array(buffers.token_rows(), two.token_rows, "[2]");
  for (const auto& [a, b] :
       {std::pair(whole.token_ids, in.token_ids), std::pair(whole.attn.block_table, in.attn.block_table),
        std::pair(whole.attn.seq_lens, in.attn.seq_lens), std::pair(whole_sample.seeds, sample.seeds)})
    EXPECT_EQ(a.data, b.data);
}

TEST(InputBuffersDeathTest, APromptIsNoDecode) {
  InputBuffers buffers(cpu_ops(), nullptr, kLimits);
  Batch batch = numbered_batch(3, 2, 2, 3);
  batch.block_copies.clear();
  EXPECT_DEATH(buffers.upload_decodes(batch, 3), "bug: ");
}

TEST(InputBuffersDeathTest, ALargerStepThanWasPlannedIsABug) {
  InputBuffers buffers(cpu_ops(), nullptr, kLimits);
  EXPECT_DEATH(buffers.upload(numbered_batch(100, 3, 3, 4)), "bug: ");
}

TEST(InputBuffersDeathTest, ABatchWhoseArraysDisagreeIsABug) {
  InputBuffers buffers(cpu_ops(), nullptr, kLimits);
  Batch batch = numbered_batch(5, 2, 1, 3);
  batch.positions.pop_back();
  EXPECT_DEATH(buffers.upload(batch), "bug: array.size");
}

}  // namespace
}  // namespace nanovllm
