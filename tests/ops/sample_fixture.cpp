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
  for (size_t id = 0; id < row.logits.size(); ++id) kept.push_back({row.logits[id], int32_t(id)});
  std::stable_sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.logit > b.logit; });
  const float max = kept[0].logit;
  const auto below = [&](const Kept& k) { return (k.logit - max) * (1.0f / row.temperature); };
  if (row.min_p >= kLeastMinP)
    std::erase_if(kept, [&](const Kept& k) { return below(k) < log_f32(row.min_p); });
  if (row.top_k > 0 && size_t(row.top_k) < kept.size()) kept.resize(size_t(row.top_k), {0, 0});
  if (row.top_p >= 1) return kept;
  const auto weight = [&](const Kept& k) { return uint64_t(double(exp_f32(below(k))) * 0x1p32); };
  if (row.top_p < 0x1p-60f) {  // of less than 2^60 together
    kept.resize(1, {0, 0});
    return kept;
  }
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

namespace {

struct Weighted {
  int32_t id;
  uint64_t weight;
};

// The first whose weight and those before it exceed floor(sum of all · bits / 2^64).
Weighted pick(const std::vector<Weighted>& all, uint64_t bits) {
  unsigned __int128 total = 0, before = 0;
  for (const Weighted& w : all) total += w.weight;
  for (const Weighted& w : all)
    if ((before += w.weight) > (total * bits >> 64)) return w;
  return {-1, 0};
}

}  // namespace

int32_t draw_by_definition(const SampleCase& row, std::vector<Kept> kept) {
  const auto below = [&](float logit, float max) { return (logit - max) * (1.0f / row.temperature); };
  std::vector<float> maxima;  // of whole chunks, whatever is kept of them
  float max = -kInfinity;
  for (size_t id = 0; id < row.logits.size(); ++id) {
    if (id % 2048 == 0) maxima.push_back(-kInfinity);
    maxima.back() = std::max(maxima.back(), row.logits[id]);
    max = std::max(max, row.logits[id]);
  }
  std::sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.id < b.id; });
  std::erase_if(kept, [](const Kept& k) { return k.logit == -kInfinity; });
  std::vector<std::vector<Weighted>> in_chunk(maxima.size());
  for (const Kept& k : kept)
    in_chunk[size_t(k.id / 2048)].push_back(
        {k.id, uint64_t(double(exp_f32(below(k.logit, maxima[size_t(k.id / 2048)]))) * 0x1p30)});
  std::vector<Weighted> chunks;
  for (size_t c = 0; c < maxima.size(); ++c) {
    uint64_t sum = 0;
    for (const Weighted& w : in_chunk[c]) sum += w.weight;
    const double part = sum ? double(exp_f32(below(maxima[c], max))) : 0;
    chunks.push_back({int32_t(c), uint64_t(double(sum) * part * 0x1p10)});
  }
  const Philox4x32 bits = philox(row.seed, {uint32_t(row.position), uint32_t(row.sample_index), 0, 0});
  const int32_t chunk = pick(chunks, uint64_t(bits[0]) << 32 | bits[1]).id;
  return chunk < 0 ? -1 : pick(in_chunk[size_t(chunk)], uint64_t(bits[2]) << 32 | bits[3]).id;
}

int32_t sample_by_definition(const SampleCase& row) {
  if (row.temperature < kGreedyTemperature || row.top_k == 1)
    return int32_t(std::max_element(row.logits.begin(), row.logits.end()) - row.logits.begin());
  return draw_by_definition(row, kept_by_definition(row));
}

}  // namespace nanovllm::test
