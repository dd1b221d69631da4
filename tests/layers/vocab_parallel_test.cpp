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

// A vocabulary of any size over ranks: the same rows on all of them, the same logits on rank 0, and none of the padding.
TEST(VocabParallel, RanksGiveWhatOneGives) {
  std::vector<float> hidden(3 * kHidden);
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = float(i) / 8 - 1;
  for (const int64_t vocab : {1, 2, 5, 21, 40, 65}) {
    const TestCheckpoint checkpoint({numbered_tensor(1, "embed.weight", {vocab, kHidden}),
                                     numbered_tensor(2, "head.weight", {vocab, kHidden})});
    std::vector<int32_t> ids;
    for (int64_t id = 0; id < vocab; ++id) ids.push_back(int32_t(id));
    Rows want_logits;
    for (const int size : {1, 2, 4}) {
      ThreadRanks ranks(size);
      std::vector<Rows> rows(static_cast<size_t>(size));
      Rows logits;
      std::vector<std::unique_ptr<VocabParallelEmbedding>> embeddings;
      std::vector<std::unique_ptr<ParallelLMHead>> heads;
      for (int r = 0; r < size; ++r) {
        const TensorParallel tp{r, size};
        embeddings.push_back(std::make_unique<VocabParallelEmbedding>("embed", vocab, kHidden, tp));
        load_layer(*embeddings.back(), checkpoint);
        heads.push_back(std::make_unique<ParallelLMHead>("head", vocab, kHidden, tp));
        load_layer(*heads.back(), checkpoint);
      }
      ranks.run([&](int r) {
        test::OpBench bench(ranks.comm(r));
        std::vector<float> out(ids.size() * kHidden, -1);
        embeddings[size_t(r)]->forward(bench.ctx, Tensor::view(ids.data(), DType::kI32, {vocab}),
                                       Tensor::view(out.data(), DType::kF32, {vocab, kHidden}));
        for (int64_t i = 0; i < vocab; ++i)
          rows[size_t(r)].emplace_back(out.begin() + i * kHidden, out.begin() + (i + 1) * kHidden);
        const Tensor all =
            heads[size_t(r)]->forward(bench.ctx, Tensor::view(hidden.data(), DType::kF32, {3, kHidden}));
        EXPECT_EQ(all.defined(), r == 0);
        for (int64_t i = 0; r == 0 && i < 3; ++i)
          logits.emplace_back(all.ptr<float>() + i * vocab, all.ptr<float>() + (i + 1) * vocab);
        if (r == 0) {
          EXPECT_EQ(all.shape[1], vocab);
        }
      });
      for (const Rows& each : rows) EXPECT_EQ(each, numbered_rows(1, 0, vocab, 0, kHidden)) << vocab;
      if (size == 1) want_logits = logits;
      EXPECT_EQ(logits, want_logits) << vocab << " tokens, " << size << " ranks";
    }
  }
}

TEST(ParallelLMHead, TiedOverRanksItGivesTheWholeVocabulary) {
  constexpr int64_t kOdd = 7;
  const TestCheckpoint checkpoint({numbered_tensor(1, "embed.weight", {kOdd, kHidden})});
  ThreadRanks ranks(4);
  std::vector<std::unique_ptr<VocabParallelEmbedding>> embeddings;
  for (int r = 0; r < 4; ++r) {
    embeddings.push_back(
        std::make_unique<VocabParallelEmbedding>("embed", kOdd, kHidden, TensorParallel{r, 4}));
    load_layer(*embeddings.back(), checkpoint);
  }
  std::vector<float> hidden(kHidden, 0), got;
  hidden[2] = 1;
  ranks.run([&](int r) {
    test::OpBench bench(ranks.comm(r));
    const ParallelLMHead head(*embeddings[size_t(r)]);
    const Tensor logits = head.forward(bench.ctx, Tensor::view(hidden.data(), DType::kF32, {1, kHidden}));
    if (r == 0) got.assign(logits.ptr<float>(), logits.ptr<float>() + logits.num_elements());
  });
  ASSERT_EQ(got.size(), size_t{kOdd});
  for (int64_t id = 0; id < kOdd; ++id) EXPECT_EQ(got[size_t(id)], test::numbered(1, id, 2));
}

}  // namespace
}  // namespace nanovllm
