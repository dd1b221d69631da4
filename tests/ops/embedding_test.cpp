#include "ops/embedding.h"

#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class EmbeddingTest : public OpTest {};
INSTANTIATE_OP_TEST(EmbeddingTest);

// Rows are widened exactly: no error at all.
TEST_P(EmbeddingTest, GivesTheRowOrZeros) {
  for (DType dtype : kWeightTypes) {
    for (int64_t hidden_size : {1, 33, 64}) {
      const StoredWeight table(ctx, dtype, random_floats({70, hidden_size}, 1));
      for (int64_t first_id : {0, 70, 1000}) {
        Ints ids({80});
        for (int32_t i = 0; i < 80; ++i)
          ids[size_t(i)] = int32_t(first_id) + i - 5;  // five before, five after
        const Floats out = unwritten({80, hidden_size});
        embedding(ctx, {.out = out, .token_ids = ids, .table = table.weight, .first_id = first_id});
        for (int64_t t = 0; t < 80; ++t)
          ASSERT_EQ(doubles(out.row(t)),
                    embedding_reference(ids[size_t(t)], first_id, table.values, size_t(hidden_size)))
              << dtype_name(dtype) << " token " << ids[size_t(t)];
      }
    }
  }
}

TEST_P(EmbeddingTest, IdsFarOutsideGiveZeros) {
  const StoredWeight table(ctx, DType::kBF16, random_floats({3, 4}, 1));  // 29 surplus lanes in its panel
  const Ints ids =
      ints({-1, 3, 31, 32, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()});
  const Floats out = unwritten({6, 4});
  embedding(ctx, {.out = out, .token_ids = ids, .table = table.weight, .first_id = 0});
  for (float v : out.span()) EXPECT_TRUE(v == 0.0f && std::signbit(v));  // −0 + −0 is −0
}

// As a sum over ranks would flush them.
TEST_P(EmbeddingTest, DenormalsAreZeros) {
#if defined(__x86_64__)
  Floats rows({2, 3});
  const float smallest = std::numeric_limits<float>::min();
  rows[0] = 1e-39f, rows[1] = -1e-39f, rows[2] = smallest, rows[3] = -smallest, rows[4] = 0, rows[5] = -0.0f;
  const StoredWeight table(ctx, DType::kF32, rows);
  const Floats out = unwritten({2, 3});
  embedding(ctx, {.out = out, .token_ids = ints({0, 1}), .table = table.weight});
  EXPECT_TRUE(same_bits(out.span(), floats({0, -0.0f, smallest, -smallest, 0, -0.0f}).span()));
#endif
}

// Two ranks of half a vocabulary each add up to the whole: what vocabulary parallelism rests on.
TEST_P(EmbeddingTest, PartsOfTheVocabularyAddUp) {
  const Floats rows = random_floats({96, 8}, 2), low = random_floats({40, 8}, 0),
               high = random_floats({56, 8}, 0);
  std::copy_n(rows.data(), 40 * 8, low.tensor().ptr<float>());
  std::copy_n(rows.data() + 40 * 8, 56 * 8, high.tensor().ptr<float>());
  const StoredWeight whole(ctx, DType::kF16, rows), first(ctx, DType::kF16, low),
      second(ctx, DType::kF16, high);
  const Ints ids = ints({0, 39, 40, 95, 17, 64});
  const Floats want = unwritten({6, 8}), a = unwritten({6, 8}), b = unwritten({6, 8});
  embedding(ctx, {.out = want, .token_ids = ids, .table = whole.weight});
  embedding(ctx, {.out = a, .token_ids = ids, .table = first.weight});
  embedding(ctx, {.out = b, .token_ids = ids, .table = second.weight, .first_id = 40});
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(a[i] + b[i], want[i]);
}

TEST_P(EmbeddingTest, IsTheHeadsWeight) {  // tied: one storage serves both
  const StoredWeight table(ctx, DType::kBF16, random_floats({50, 16}, 3));
  const Floats row = unwritten({1, 16}), logits = unwritten({1, 50});
  embedding(ctx, {.out = row, .token_ids = ints({37}), .table = table.weight});
  Floats one_hot({1, 16});
  for (size_t k = 0; k < 16; ++k) {
    std::fill_n(one_hot.data(), 16, 0.0f);
    one_hot[k] = 1;
    linear(ctx, {.out = logits, .x = one_hot, .weight = table.weight});
    EXPECT_EQ(logits[37], row[k]);
  }
}

}  // namespace
}  // namespace nanovllm
