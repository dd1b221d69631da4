// A row of a product has the same bits whatever is beside it, whoever computes it, and on every instruction
// set.
#include <map>

#include "ops/linear.h"
#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

struct Shape {
  int64_t out_features, in_features, num_segments;
};
// Four segments of 4 and 193 elements; widths around one, two and three panels.
constexpr Shape kShapes[] = {{1, 1, 1},   {15, 15, 1}, {16, 16, 1}, {17, 33, 1},  {31, 17, 1}, {32, 31, 1},
                             {33, 16, 4}, {96, 33, 1}, {70, 60, 4}, {49, 772, 4}, {65, 769, 1}};

Floats run_linear(Context& ctx, const StoredWeight& w, const Tensor& x, int64_t segments,
                  const Tensor& bias) {
  const Floats out = unwritten({segments, x.shape[0], w.weight.out_features});
  linear(ctx,
         {.out = segments > 1 ? out.tensor() : out.tensor()[0], .x = x, .weight = w.weight, .bias = bias});
  return out;
}

// Every height of a tile, first, middle and last panels, on every set: M = 1 … 30, and then up to 40 on one.
TEST(LinearBits, ARowIsTheSameAloneAndInAnyCompanyOnEverySet) {
  EverySet sets;
  for (DType dtype : kWeightTypes) {
    for (const Shape& shape : kShapes) {
      const Floats x = random_floats({40, shape.in_features}, 1);
      const Floats rows = random_floats({shape.out_features, shape.in_features}, 2);
      const Floats random_bias = random_floats({shape.out_features}, 3);
      std::map<std::string_view, std::unique_ptr<StoredWeight>> weights;  // by instruction set
      for (const Tensor& bias : {Tensor(), random_bias.tensor()}) {
        const auto product = [&](int64_t first, int64_t count) {
          const std::string what = std::string(dtype_name(dtype)) + " " + std::to_string(shape.out_features) +
                                   "x" + std::to_string(shape.in_features) + " M=" + std::to_string(count);
          return sets.same_bits_from_all(what, [&](Context& ctx) {
            std::unique_ptr<StoredWeight>& w = weights[ctx.ops.instruction_set];
            if (!w) w = std::make_unique<StoredWeight>(ctx, dtype, rows);
            return run_linear(ctx, *w, x.tensor().slice(first, count), shape.num_segments, bias);
          });
        };
        std::vector<Floats> alone;
        for (int64_t t = 0; t < 40; ++t) alone.push_back(product(t, 1));
        for (int64_t count = 2; count <= 40; ++count) {
          if (shape.in_features > 700 && count > 30) break;  // long chains: enough
          const int64_t first = count % 3 == 0 ? 40 - count : 0;
          const Floats together = product(first, count);
          for (int64_t s = 0; s < shape.num_segments; ++s)
            for (int64_t t = 0; t < count; ++t)
              ASSERT_TRUE(same_bits(
                  together.row(s).subspan(size_t(t * shape.out_features), size_t(shape.out_features)),
                  alone[size_t(first + t)].row(s)))
                  << dtype_name(dtype) << " " << shape.out_features << "x" << shape.in_features << " row "
                  << t << " of " << count;
        }
      }
    }
  }
}

// The sum that docs/design.md promises, written plainly in float32: not merely one that all kernels share.
TEST(LinearBits, ARowIsTheChainOfItsDefinition) {
  EverySet sets;
  const Floats x = random_floats({3, 772}, 1), bias = random_floats({49}, 3);
  for (DType dtype : kWeightTypes) {
    for (int64_t segments : {1, 4}) {
      std::vector<double> values;
      const Floats out = sets.same_bits_from_all("linear", [&](Context& ctx) {
        const StoredWeight w(ctx, dtype, random_floats({49, 772}, 2));
        values = w.values;
        return run_linear(ctx, w, x, segments, bias);
      });
      const size_t k = size_t(772 / segments);
      for (size_t s = 0; s < size_t(segments); ++s) {
        for (size_t t = 0; t < 3; ++t) {
          for (size_t n = 0; n < 49; ++n) {
            float sum = 0;
            for (size_t i = s * k; i < (s + 1) * k; ++i)
              sum = std::fma(x[t * 772 + i], float(values[n * 772 + i]), sum);
            ASSERT_EQ(out[(s * 3 + t) * 49 + n], s == 0 ? sum + bias[n] : sum);
          }
        }
      }
    }
  }
}

// Every number of outputs in the last panel; what lies past the last output is not touched.
TEST(LinearBits, EveryWidthOfTheLastPanel) {
  EverySet sets;
  for (DType dtype : kWeightTypes) {
    for (int64_t outputs = 1; outputs <= 66; ++outputs) {
      const Floats x = random_floats({3, 5}, 1), bias = random_floats({outputs}, 3);
      std::vector<double> values;
      const Floats wide = sets.same_bits_from_all("outputs " + std::to_string(outputs), [&](Context& ctx) {
        const StoredWeight w(ctx, dtype, random_floats({outputs, 5}, 2));
        values = w.values;
        const Floats out({3, 100}, 7.0f);
        Tensor narrow = out;
        narrow.shape[1] = outputs;
        linear(ctx, {.out = narrow, .x = x, .weight = w.weight, .bias = bias});
        return out;
      });
      for (size_t t = 0; t < 3; ++t) {
        for (size_t n = 0; n < 100; ++n) {
          float sum = 0;
          for (size_t i = 0; i < 5 && n < size_t(outputs); ++i)
            sum = std::fma(x[t * 5 + i], float(values[n * 5 + i]), sum);
          ASSERT_EQ(wide[t * 100 + n], n < size_t(outputs) ? sum + bias[n] : 7.0f)
              << outputs << " outputs, " << n;
        }
      }
    }
  }
}

class LinearThreads : public testing::TestWithParam<std::string> {};
INSTANTIATE_OP_TEST(LinearThreads);

TEST_P(LinearThreads, AnyNumberGivesTheSameBits) {
  const Floats x = random_floats({17, 260}, 1), rows = random_floats({333, 260}, 2),
               bias = random_floats({333}, 3);
  for (DType dtype : kWeightTypes) {
    for (int64_t segments : {1, 4}) {
      for (int64_t tokens : {1, 17}) {
        std::vector<Floats> results;
        for (int threads : {1, 2, 3, 8}) {
          OpContext op(ops_named(GetParam()), threads);
          const StoredWeight w(op.ctx, dtype, rows);
          results.push_back(run_linear(op.ctx, w, x.tensor().slice(0, tokens), segments, bias));
          EXPECT_TRUE(same_bits(results.back().span(), results.front().span())) << threads << " threads";
        }
      }
    }
  }
}

// What tensor parallelism rests on: ranks that own whole quarters of K compute the segments of one product.
TEST_P(LinearThreads, PartsOfKOnSeveralRanksAreItsSegments) {
  OpContext op(ops_named(GetParam()));
  const Floats x = random_floats({3, 88}, 1), rows = random_floats({50, 88}, 2);
  const StoredWeight whole(op.ctx, DType::kBF16, rows);
  const Floats want = run_linear(op.ctx, whole, x, 4, Tensor());
  for (int64_t ranks : {2, 4}) {
    const int64_t k = 88 / ranks, segments = 4 / ranks;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Floats part({50, k});
      for (int64_t n = 0; n < 50; ++n) std::copy_n(rows.row(n).data() + rank * k, k, part.data() + n * k);
      Tensor part_x = x;
      part_x.data = part_x.ptr<float>() + rank * k;
      part_x.shape[1] = k;
      const StoredWeight w(op.ctx, DType::kBF16, part);
      const Floats got = run_linear(op.ctx, w, part_x, segments, Tensor());
      for (int64_t s = 0; s < segments; ++s)
        EXPECT_TRUE(same_bits(got.row(s), want.row(rank * segments + s))) << rank << " of " << ranks;
    }
  }
}

}  // namespace
}  // namespace nanovllm
