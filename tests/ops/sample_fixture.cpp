#include "ops/sample_fixture.h"

#include "base/random.h"
#include "ops/scalar_math.h"

namespace nanovllm::test {

std::vector<int32_t> sample_rows(Context& ctx, const std::vector<SampleCase>& rows,
                                 int64_t num_valid_tokens) {
  const int64_t n = int64_t(rows.size()), vocab_size = int64_t(rows[0].logits.size());
  Floats logits({n, vocab_size}), temperature({n}), top_p({n}), min_p({n});
  Ints out({n}, -7), top_k({n}), seeds({n, 2}), positions({n}), sample_indices({n});
  for (size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].logits.begin(), rows[r].logits.end(), logits.data() + int64_t(r) * vocab_size);
    temperature[r] = rows[r].temperature;
    top_p[r] = rows[r].top_p;
    min_p[r] = rows[r].min_p;
    top_k[r] = rows[r].top_k;
    seeds[2 * r] = int32_t(uint32_t(rows[r].seed));
    seeds[2 * r + 1] = int32_t(uint32_t(rows[r].seed >> 32));
    positions[r] = rows[r].position;
    sample_indices[r] = rows[r].sample_index;
  }
  sample(ctx, {.out = out,
               .logits = logits,
               .temperature = temperature,
               .top_k = top_k,
               .top_p = top_p,
               .min_p = min_p,
               .seeds = seeds,
               .positions = positions,
               .sample_indices = sample_indices,
               .num_valid_tokens = num_valid_tokens ? num_valid_tokens : vocab_size});
  return {out.data(), out.data() + n};
}

int32_t sample_one(Context& ctx, const SampleCase& row) { return sample_rows(ctx, {row})[0]; }

std::vector<Kept> kept_by_definition(const SampleCase& row) {
  std::vector<Kept> kept;
  for (size_t id = 0; id < row.logits.size(); ++id)
    kept.push_back({row.logits[id] / row.temperature, int32_t(id)});
  std::stable_sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.x > b.x; });
  if (row.min_p >= kLeastMinP) {
    const float least = kept[0].x + log_f32(row.min_p);
    std::erase_if(kept, [&](const Kept& k) { return k.x < least; });
  }
  if (row.top_k > 0 && size_t(row.top_k) < kept.size()) kept.resize(size_t(row.top_k), {0, 0});
  if (row.top_p >= 1) return kept;
  const auto weight = [&](const Kept& k) { return uint64_t(double(exp_f32(k.x - kept[0].x)) * 0x1p32); };
  unsigned __int128 total = 0, sum = 0;
  for (const Kept& k : kept) total += weight(k);
  int exponent = 0;
  const uint64_t mantissa =
      uint64_t(std::ldexp(std::frexp(row.top_p, &exponent), 24));  // top_p = m 2^(exponent - 24)
  size_t count = 0;
  while (count < kept.size()) {
    sum += weight(kept[count++]);
    if (sum << (24 - exponent) >= total * mantissa) break;
  }
  kept.resize(count, {0, 0});
  return kept;
}

int32_t sample_by_definition(const SampleCase& row) {
  int32_t best_id = -1;
  float best = -kInfinity;
  const bool greedy = row.temperature < kGreedyTemperature || row.top_k == 1;
  std::vector<Kept> kept = greedy ? kept_by_definition({.logits = row.logits}) : kept_by_definition(row);
  std::sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.id < b.id; });
  for (const Kept& k : kept) {
    const Philox4x32 bits =
        philox(row.seed, {uint32_t(k.id) / 4, uint32_t(row.position), uint32_t(row.sample_index), 0});
    const float value = greedy ? k.x : k.x + gumbel_f32(bits[size_t(k.id % 4)]);
    if (value > best) best = value, best_id = k.id;
  }
  return best_id;
}

}  // namespace nanovllm::test
