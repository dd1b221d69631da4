// Masks, penalties and biases of logits (ops/edit_logits.h).
#include "ops/edit_logits.h"

#include <algorithm>
#include <map>
#include <random>

#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

struct Edit {
  int32_t id;
  bool penalized;
  float addend;
};
struct RowEdits {
  float penalty = 1;
  std::vector<Edit> edits;
  std::optional<std::vector<uint32_t>> mask;
};

// The arrays of an op call, for rows of these numbers.
struct Arrays {
  Arrays(const std::map<int32_t, RowEdits>& rows, int64_t vocab_size) {
    std::vector<int32_t> edited, begins{0}, all_ids, masked, words;
    std::vector<float> all_penalties, all_addends;
    for (const auto& [row, e] : rows) {
      if (e.mask) {
        masked.push_back(row);
        for (const uint32_t word : *e.mask) words.push_back(int32_t(word));
      }
      if (e.edits.empty()) continue;
      edited.push_back(row);
      all_penalties.push_back(e.penalty);
      for (const Edit& edit : e.edits) {
        all_ids.push_back(edit.penalized ? ~edit.id : edit.id);
        all_addends.push_back(edit.addend);
      }
      begins.push_back(int32_t(all_ids.size()));
    }
    const auto put = [](const auto& from, auto& to, std::initializer_list<int64_t> shape) {
      to.emplace(shape);
      std::copy(from.begin(), from.end(), to->data());
    };
    if (!masked.empty()) {
      put(masked, masked_rows, {int64_t(masked.size())});
      put(words, masks, {int64_t(masked.size()), (vocab_size + 31) / 32});
    }
    if (edited.empty()) return;
    put(edited, row_ids, {int64_t(edited.size())});
    put(begins, edit_begins, {int64_t(begins.size())});
    put(all_penalties, penalties, {int64_t(edited.size())});
    put(all_ids, ids, {int64_t(all_ids.size())});
    put(all_addends, addends, {int64_t(all_ids.size())});
  }
  EditLogitsArgs args(const Floats& logits) const {
    EditLogitsArgs a{.logits = logits};
    if (masked_rows) a.masked_rows = *masked_rows, a.masks = *masks;
    if (row_ids)
      a.rows = *row_ids, a.begins = *edit_begins, a.penalties = *penalties, a.ids = *ids,
      a.addends = *addends;
    return a;
  }
  std::optional<Ints> masked_rows, masks, row_ids, edit_begins, ids;
  std::optional<Floats> penalties, addends;
};

class EditLogitsTest : public OpTest {};
INSTANTIATE_OP_TEST(EditLogitsTest);

TEST_P(EditLogitsTest, IsItsDefinition) {
  std::mt19937 random(1);
  for (const int64_t vocab : {1, 31, 32, 33, 1000, 10001}) {
    const Floats before = random_floats({9, vocab}, 3, 5);
    std::map<int32_t, RowEdits> rows;
    std::vector<float> want(before.span().begin(), before.span().end());
    for (const int32_t row : {0, 3, 4, 8}) {
      RowEdits& e = rows[row];
      e.penalty = row == 3 ? 0.7f : 1.3f;
      if (row != 8) {
        e.mask.emplace(size_t(vocab + 31) / 32);
        for (uint32_t& word : *e.mask) word = uint32_t(random());
      }
      for (int32_t id = 0; id < vocab; ++id) {
        float& logit = want[size_t(row * vocab + id)];
        if (e.mask && ((*e.mask)[size_t(id) / 32] >> id % 32 & 1) == 0) logit = -kInfinity;
        if (row == 4 || random() % 3) continue;
        const Edit edit{id, random() % 2 == 0,
                        random() % 5 ? float(int(random() % 100) - 50) * 0.37f : -kInfinity};
        e.edits.push_back(edit);
        if (edit.penalized) logit = logit < 0 ? logit * e.penalty : logit / e.penalty;
        logit += edit.addend;
      }
    }
    const Floats logits = random_floats({9, vocab}, 3, 5);
    const Arrays arrays(rows, vocab);
    edit_logits(ctx, arrays.args(logits));
    ASSERT_TRUE(same_bits(logits.span(), want)) << vocab;

    restore_logits(ctx, arrays.args(logits));
    for (int64_t row = 0; row < 9; ++row)
      for (int64_t id = 0; id < vocab; ++id) {
        const auto e = rows.find(int32_t(row));
        const bool masked =
            e != rows.end() && e->second.mask && ((*e->second.mask)[size_t(id) / 32] >> id % 32 & 1) == 0;
        const size_t i = size_t(row * vocab + id);
        ASSERT_EQ(logits[i], masked ? -kInfinity : before[i]) << row << " " << id;
      }
  }
}

TEST_P(EditLogitsTest, NothingToDoIsNothingDone) {
  const Floats logits = random_floats({2, 40}, 3, 5), before = random_floats({2, 40}, 3, 5);
  edit_logits(ctx, {.logits = logits});
  restore_logits(ctx, {.logits = logits});
  EXPECT_TRUE(same_bits(logits.span(), before.span()));
}

// A masked NaN is still one.
TEST_P(EditLogitsTest, MasksHideNoSickLogit) {
  Floats logits({1, 4}, 1.0f);
  logits[1] = kNan, logits[2] = kInfinity;
  std::map<int32_t, RowEdits> rows;
  rows[0].mask = std::vector<uint32_t>{1};
  edit_logits(ctx, Arrays(rows, 4).args(logits));
  EXPECT_EQ(logits[0], 1);
  EXPECT_TRUE(std::isnan(logits[1]));
  EXPECT_EQ(logits[2], kInfinity);
  EXPECT_EQ(logits[3], -kInfinity);
}

// A positive logit shrinks, a negative one falls; zero stays; NaN stays NaN, so that the row is found sick.
TEST_P(EditLogitsTest, PenaltiesOfEverySign) {
  Floats logits({1, 6});
  const float values[] = {3, -3, 0, -0.0f, kNan, -kInfinity};
  std::copy(std::begin(values), std::end(values), logits.data());
  std::map<int32_t, RowEdits> rows;
  rows[0].penalty = 1.5f;
  for (int32_t id = 0; id < 6; ++id) rows[0].edits.push_back({id, true, 0});
  edit_logits(ctx, Arrays(rows, 6).args(logits));
  EXPECT_EQ(logits[0], 2);
  EXPECT_EQ(logits[1], -4.5f);
  EXPECT_EQ(logits[2], 0);
  EXPECT_EQ(logits[3], 0);
  EXPECT_TRUE(std::isnan(logits[4]));
  EXPECT_EQ(logits[5], -kInfinity);
}

}  // namespace
}  // namespace nanovllm
