// On the CPU and on a GPU (in bf16 and in float32), the demo model gives each request the same tokens and the same logits, bit for bit, whatever its company, the chunks of
// its prompt, what the cache held, how often it was preempted, the threads, the ranks and the blocks.
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <random>
#include <set>

#include "engine/make_sequence.h"
#include "engine/scheduler.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/cuda_ops.h"
#include "runtime/model_runner.h"
#include "support.h"

namespace nanovllm {
namespace {

using Request = std::unique_ptr<Sequence>;

constexpr int kMaxModelLen = 1024;

struct Conditions {
  std::string name;
  int max_num_seqs = 64;
  int max_num_batched_tokens = 512;
  int num_threads = 1;
  int tensor_parallel_size = 1;
  int block_size = 16;
  int num_tokens = 16384;  // of the cache
  PrefixCaching caching = PrefixCaching::kOn;
};

// One logits row: of which request and completion, and the position of the token that was drawn from it.
using Row = std::tuple<uint64_t, int32_t, int32_t>;

struct Answers {
  std::map<std::pair<RequestId, int>, std::vector<TokenId>> token_ids;
  std::map<Row, uint64_t> logits;  // a hash of the bits
  std::set<int> cached_tokens;
  int preempted_once = 0, preempted_twice = 0, preempted_before_first_token = 0;
};

uint64_t hash_of(std::span<const float> logits) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const float x : logits) hash = (hash ^ std::bit_cast<uint32_t>(x)) * 0x100000001B3;
  return hash;
}

class Engine {
 public:
  Engine(const OpTable& ops, const Conditions& conditions)
      : config_(read_model_config(test::demo_model())),
        runner_(test::demo_model(), config_,
                {.ops = &ops,
                 .tensor_parallel_size = conditions.tensor_parallel_size,
                 .num_threads = conditions.num_threads,
                 .max_num_seqs = conditions.max_num_seqs,
                 .max_num_batched_tokens = conditions.max_num_batched_tokens,
                 .max_model_len = kMaxModelLen,
                 .block_size = conditions.block_size,
                 .num_blocks = conditions.num_tokens / conditions.block_size}),
        scheduler_({.max_num_seqs = conditions.max_num_seqs,
                    .max_num_batched_tokens = conditions.max_num_batched_tokens,
                    .max_model_len = kMaxModelLen,
                    .num_blocks = conditions.num_tokens / conditions.block_size,
                    .block_size = conditions.block_size,
                    .prefix_caching = conditions.caching},
                   {}) {}

  void run(const std::vector<Request>& requests, Answers& answers) {
    for (const Request& request : requests) scheduler_.add(std::make_unique<Sequence>(*request));
    while (scheduler_.has_unfinished()) step(answers);
    for (const auto& sequence : scheduler_.take_finished()) {
      answers.token_ids[{sequence->id, sequence->sample_index}] = sequence->token_ids;
      answers.cached_tokens.insert(sequence->num_cached_tokens);
      answers.preempted_once += sequence->num_preemptions == 1;
      answers.preempted_twice += sequence->num_preemptions > 1;
    }
  }

 private:
  void step(Answers& answers) {
    const int64_t before = scheduler_.metrics().num_preemptions;
    const Batch& batch = scheduler_.schedule();
    if (scheduler_.metrics().num_preemptions > before) {
      const Sequence& last = *scheduler_.waiting().front();
      answers.preempted_before_first_token += last.num_preemptions > 0 && last.num_output_tokens() == 0;
    }
    const std::span<const TokenId> ids = runner_.run(batch);
    const std::vector<float> logits = runner_.logits();
    const size_t width = size_t(config_.vocab_size);
    for (int i = 0; i < batch.num_sampled(); ++i) {
      const Row key{uint32_t(batch.seeds[size_t(2 * i)]), batch.sample_indices[size_t(i)],
                    batch.sample_positions[size_t(i)]};
      const uint64_t hash = hash_of(std::span(logits).subspan(size_t(i) * width, width));
      EXPECT_TRUE(answers.logits.emplace(key, hash).second) << "a row was drawn twice";
    }
    scheduler_.update(ids);
  }

  ModelConfig config_;
  ModelRunner runner_;
  Scheduler scheduler_;
};

std::vector<TokenId> random_ids(std::mt19937& random, int count) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) ids.push_back(TokenId(random() % 6000));
  return ids;
}

Request request(RequestId id, std::vector<TokenId> prompt, SamplingParams params) {
  params.seed = id;
  params.ignore_eos = true;
  return test::make_sequence(id, std::move(prompt), params);
}

const SamplingParams kGreedy{.temperature = 0, .max_tokens = 5},
    kSampled{.temperature = 0.8f, .top_k = 50, .top_p = 0.95f, .max_tokens = 5};

// Greedy and sampled, one completion and several, short and long; half of them begin alike.
std::vector<Request> crowd() {
  std::mt19937 random(1);
  const std::vector<TokenId> text = random_ids(random, 60);
  std::vector<Request> requests;
  for (RequestId id = 0; id < 64; ++id) {
    std::vector<TokenId> prompt = random_ids(random, 1 + int(random() % 20));
    if (id % 2 == 1) prompt.insert(prompt.begin(), text.begin(), text.begin() + int(random() % 60));
    SamplingParams params = id % 4 < 2 ? kGreedy : kSampled;
    params.n = id % 8 == 2 ? 3 : 1;
    params.max_tokens += id % 8 == 5 ? 40 : 0;
    requests.push_back(request(id, std::move(prompt), params));
  }
  return requests;
}

// Each by itself, nothing shared, nothing cached.
Answers alone(const OpTable& ops, const std::vector<Request>& requests) {
  Engine engine(ops, {.name = "alone", .max_num_seqs = 1, .caching = PrefixCaching::kOff});
  Answers answers;
  for (const Request& each : requests) {
    std::vector<Request> one;
    one.push_back(std::make_unique<Sequence>(*each));
    engine.run(one, answers);
  }
  return answers;
}

const Answers& crowd_alone(const OpTable& ops) {
  static std::map<const OpTable*, Answers> answers;
  const auto found = answers.find(&ops);
  return found != answers.end() ? found->second : answers.emplace(&ops, alone(ops, crowd())).first->second;
}

class SameBits : public testing::TestWithParam<std::string> {
 protected:
  const OpTable& ops() const {
    if (GetParam() == "cpu") return cpu_ops();
    return cuda_ops(GetParam() == "cuda" ? DType::kBF16 : DType::kF32);
  }
  // A GPU is one rank.
  Engine engine(Conditions conditions) const {
    if (GetParam() != "cpu") conditions.tensor_parallel_size = 1;
    return Engine(ops(), conditions);
  }
};

std::vector<std::string> places() {
  if (!cuda_unavailable().empty()) return {"cpu"};
  return {"cpu", "cuda", "cuda_float32"};
}
INSTANTIATE_TEST_SUITE_P(On, SameBits, testing::ValuesIn(places()),
                         [](const auto& info) { return info.param; });

void expect_same(const Answers& got, const Answers& want) {
  EXPECT_EQ(got.token_ids, want.token_ids);
  ASSERT_EQ(got.logits.size(), want.logits.size());
  for (const auto& [row, hash] : want.logits)
    ASSERT_EQ(got.logits.at(row), hash) << "request " << std::get<0>(row) << ", completion "
                                        << std::get<1>(row) << ", position " << std::get<2>(row);
}

TEST_P(SameBits, ACrowdOf64HoweverItIsRun) {
  const std::vector<Request> requests = crowd();
  for (const Conditions& conditions :
       {Conditions{.name = "together"},
        Conditions{.name = "chunks of 1", .max_num_seqs = 1, .max_num_batched_tokens = 1},
        Conditions{.name = "chunks of 7, two threads",
        .max_num_seqs = 5,
        .max_num_batched_tokens = 7,
        .num_threads = 2},
        Conditions{.name = "chunks of 16, blocks of 1",
        .max_num_seqs = 8,
        .max_num_batched_tokens = 16,
        .block_size = 1},
        Conditions{.name = "two ranks, blocks of 32", .tensor_parallel_size = 2, .block_size = 32},
        Conditions{
            .name = "four ranks, no cache", .tensor_parallel_size = 4, .caching = PrefixCaching::kOff}}) {
    SCOPED_TRACE(conditions.name);
    Engine engine = this->engine(conditions);
    Answers got;
    engine.run(requests, got);
    expect_same(got, crowd_alone(ops()));
    EXPECT_EQ(got.cached_tokens.size() > 1, conditions.caching == PrefixCaching::kOn);
  }
}

TEST(SameBitsOnGpu, Float32HasTheCpus) {
  if (!cuda_unavailable().empty()) GTEST_SKIP() << cuda_unavailable();
  expect_same(crowd_alone(cuda_ops(DType::kF32)), crowd_alone(cpu_ops()));
}

TEST_P(SameBits, PreemptedOnceTwiceAndBeforeTheFirstToken) {
  for (const PrefixCaching caching : {PrefixCaching::kOn, PrefixCaching::kOff}) {
    Engine engine = this->engine(
        {.max_num_seqs = 12, .max_num_batched_tokens = 16, .num_tokens = 160, .caching = caching});
    Answers got;
    engine.run(crowd(), got);
    expect_same(got, crowd_alone(ops()));
    EXPECT_GT(got.preempted_once, 0);
    EXPECT_GT(got.preempted_twice, 0);
    EXPECT_GT(got.preempted_before_first_token, 0);
  }
}

// One text of 70 tokens is in the cache; then come prompts that leave it after any number of tokens.
TEST_P(SameBits, PrefixHitsOfEveryLength) {
  std::mt19937 random(2);
  const std::vector<TokenId> text = random_ids(random, 70);
  std::vector<Request> requests;
  requests.push_back(request(0, text, kGreedy));
  for (int length = 1; length <= 70; ++length) {
    std::vector<TokenId> prompt(text.begin(), text.begin() + length);
    if (length % 3 == 0)
      requests.push_back(request(RequestId(100 + length), prompt, kGreedy));  // nothing behind it
    prompt.push_back(TokenId(6000 + length));
    requests.push_back(request(RequestId(length), std::move(prompt), length % 2 ? kGreedy : kSampled));
  }
  const Answers want = alone(ops(), requests);
  for (const int block_size : {1, 16, 32}) {
    SCOPED_TRACE(block_size);
    Engine engine = this->engine({.max_num_seqs = 1, .block_size = block_size});
    Answers got;
    engine.run(requests, got);
    expect_same(got, want);
    std::set<int> hits;
    for (int n = 0; n <= 70; n += block_size) hits.insert(n);
    EXPECT_EQ(got.cached_tokens, hits);
  }
}

// Prompts longer than a step's budget, and hits on both sides of 128 tokens, where eight blocks of 16 end.
TEST_P(SameBits, LongPromptsInChunksAndFromTheCache) {
  std::mt19937 random(3);
  const std::vector<TokenId> text = random_ids(random, 600);
  std::vector<Request> requests;
  requests.push_back(request(0, text, kSampled));
  for (const int length : {127, 128, 129, 512}) {
    std::vector<TokenId> prompt(text.begin(), text.begin() + length);
    requests.push_back(request(RequestId(1000 + length), prompt, kGreedy));
    prompt.push_back(6000);
    requests.push_back(request(RequestId(length), std::move(prompt), kSampled));
  }
  const Answers want = alone(ops(), requests);
  for (const Conditions& conditions :
       {Conditions{
            .name = "512, blocks of 1, two threads", .max_num_seqs = 1, .num_threads = 2, .block_size = 1},
        Conditions{.name = "100, blocks of 5, two threads",
        .max_num_seqs = 4,
        .max_num_batched_tokens = 100,
        .num_threads = 2,
        .block_size = 5},
        Conditions{.name = "16, two ranks",
        .max_num_seqs = 8,
        .max_num_batched_tokens = 16,
        .tensor_parallel_size = 2}}) {
    SCOPED_TRACE(conditions.name);
    Engine engine = this->engine(conditions);
    Answers got;
    engine.run(requests, got);
    expect_same(got, want);
    if (conditions.block_size == 1) {
      EXPECT_EQ(got.cached_tokens, (std::set<int>{0, 126, 127, 128, 129, 511, 512}));
    }
  }
}

}  // namespace
}  // namespace nanovllm
