#include "layers/vocab_parallel.h"

#include <gtest/gtest.h>

#include "layers/layer_bench.h"

namespace nanovllm {
namespace {

using test::load_layer;
using test::numbered_rows;
using test::numbered_tensor;
using test::Rows;
using test::TestCheckpoint;

constexpr int64_t kVocab = 40, kHidden = 6;

TestCheckpoint embedding_checkpoint() {
  return TestCheckpoint({numbered_tensor(1, "embed.weight", {kVocab, kHidden}),
                         numbered_tensor(2, "head.weight", {kVocab, kHidden})});
}

Rows look_up(const VocabParallelEmbedding& embedding, std::vector<int32_t> ids) {
  test::OpBench bench;
  const int64_t count = int64_t(ids.size());
  std::vector<float> out(ids.size() * kHidden, -1);
  embedding.forward(bench.ctx, Tensor::view(ids.data(), DType::kI32, {count}),
                    Tensor::view(out.data(), DType::kF32, {count, kHidden}));
  Rows rows;
  for (int64_t i = 0; i < count; ++i)
    rows.emplace_back(out.begin() + i * kHidden, out.begin() + (i + 1) * kHidden);
  return rows;
}

TEST(VocabParallelEmbedding, ARankHasItsIdsAndZerosForTheOthers) {
  const TestCheckpoint checkpoint = embedding_checkpoint();
  const std::vector<int32_t> ids{0, 9, 10, 19, 20, 29, 30, 39};  // first and last of each quarter
  for (const int size : {1, 2, 4}) {
    const int64_t count = kVocab / size;
    for (int rank = 0; rank < size; ++rank) {
      VocabParallelEmbedding embedding("embed", kVocab, kHidden, {rank, size});
      EXPECT_EQ(load_layer(embedding, checkpoint)[0], numbered_rows(1, rank * count, count, 0, kHidden));
      Rows want;
      for (const int32_t id : ids)
        want.push_back(id / count == rank ? numbered_rows(1, id, 1, 0, kHidden)[0]
                                          : std::vector<float>(size_t{kHidden}, 0));
      EXPECT_EQ(look_up(embedding, ids), want) << rank << " of " << size;
    }
  }
}

TEST(ParallelLMHead, EachRankHasItsPartOfTheVocabulary) {
  const TestCheckpoint checkpoint = embedding_checkpoint();
  for (const int size : {1, 2, 4}) {
    for (int rank = 0; rank < size; ++rank) {
      ParallelLMHead head("head", kVocab, kHidden, {rank, size});
      EXPECT_EQ(load_layer(head, checkpoint)[0],
                numbered_rows(2, rank * kVocab / size, kVocab / size, 0, kHidden));
    }
  }
}

TEST(ParallelLMHead, TiedItIsTheEmbeddingsStorage) {
  const TestCheckpoint checkpoint = embedding_checkpoint();
  VocabParallelEmbedding embedding("embed", kVocab, kHidden, {});
  ParallelLMHead head(embedding);
  EXPECT_TRUE(load_layer(head, checkpoint).empty());  // declares nothing of its own
  load_layer(embedding, checkpoint);
  EXPECT_NE(head.weight().data, nullptr);
  EXPECT_EQ(head.weight().data, embedding.parameter().weight().data);
}

TEST(ParallelLMHead, UntiedItHasItsOwn) {
  const TestCheckpoint checkpoint = embedding_checkpoint();
  VocabParallelEmbedding embedding("embed", kVocab, kHidden, {});
  ParallelLMHead head("head", kVocab, kHidden, {});
  load_layer(embedding, checkpoint);
  EXPECT_EQ(load_layer(head, checkpoint)[0], numbered_rows(2, 0, kVocab, 0, kHidden));
  EXPECT_NE(head.weight().data, embedding.parameter().weight().data);
}

TEST(ParallelLMHead, GivesALogitForEachTokenOfTheVocabulary) {
  const TestCheckpoint checkpoint = embedding_checkpoint();
  ParallelLMHead head("head", kVocab, kHidden, {});
  load_layer(head, checkpoint);
  test::OpBench bench;
  std::vector<float> hidden{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  const Tensor logits = head.forward(bench.ctx, Tensor::view(hidden.data(), DType::kF32, {2, kHidden}));
  ASSERT_EQ(to_string(logits), "[2, 40] f32");
  for (int64_t id = 0; id < kVocab; ++id) {
    EXPECT_EQ(logits.ptr<float>()[id], test::numbered(2, id, 1));
    EXPECT_EQ(logits.ptr<float>()[kVocab + id], 2 * test::numbered(2, id, 5));
  }
}

}  // namespace
}  // namespace nanovllm
