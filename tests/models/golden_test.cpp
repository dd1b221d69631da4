// Every model of tests/golden against Hugging Face transformers in float32.
//
// The bound 2e-5 · max|reference| is the project's: both sides compute in float32 and differ in the order of
// sums. A step of float32 has 6e-8 relative error; products here have up to 1,024 terms in up to three
// layers, each renormalised.
#include "models/golden.h"

#include <numeric>
#include <random>

#include "models/model_config.h"
#include "ops/cuda/cuda_ops.h"
#include "safetensors_writer.h"

namespace nanovllm {
namespace {

constexpr float kRelativeBound = 2e-5f;

struct Case {
  const char* model;
  const char* config;  // which of the folder's two styles
};

// A folder with the model's weights and the config of the chosen style.
class GoldenModel : public testing::TestWithParam<Case> {
 protected:
  GoldenModel() : reference_(open_safetensors(test::golden(GetParam().model) / "reference.safetensors")) {
    for (const auto& entry : std::filesystem::directory_iterator(test::golden(GetParam().model)))
      if (entry.path().filename().string().starts_with("model"))
        std::filesystem::create_symlink(entry.path(), folder_ / entry.path().filename().string());
    std::filesystem::copy_file(test::golden(GetParam().model) / GetParam().config, folder_ / "config.json");
    prompt_ = test::reference_ids(reference_, "prompt_ids");
  }

  std::unique_ptr<ModelRunner> make_runner(const OpTable& ops = cpu_ops(), int tensor_parallel_size = 1) {
    return std::make_unique<ModelRunner>(folder_.path(), read_model_config(folder_.path()),
                                         test::small_runner(ops, 2, tensor_parallel_size));
  }

  // Logits and hidden states of all prompt positions, or of those from `first` on.
  void expect_reference(const test::ForwardResult& result, size_t first = 0) {
    const std::vector<float> logits = test::reference_array(reference_, "logits");
    const std::vector<float> hidden = test::reference_array(reference_, "hidden_states");
    const auto expect_near = [&](const std::vector<float>& got, auto begin, auto end,
                                 const std::string& what) {
      const std::vector<float> want(begin, end);
      const size_t skipped = want.size() / prompt_.size() * first;
      EXPECT_LE(test::largest_difference(got, {want.begin() + std::ptrdiff_t(skipped), want.end()}),
                kRelativeBound * test::largest(want))
          << what;
    };
    expect_near(result.logits, logits.begin(), logits.end(), "logits");
    const size_t num_states = result.hidden_states.size(), size = hidden.size() / num_states;
    for (size_t i = 0; i < num_states; ++i)
      expect_near(result.hidden_states[i], hidden.begin() + std::ptrdiff_t(i * size),
                  hidden.begin() + std::ptrdiff_t((i + 1) * size), "layer " + std::to_string(i));
  }

  test::ScratchFolder folder_;
  Checkpoint reference_;
  std::vector<TokenId> prompt_;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* model : {"qwen3-tied-bf16", "qwen3-untied-f32", "qwen3-head128-gqa8-bf16",
                            "qwen3-bias-bf16", "qwen3-yarn-f16-sharded", "qwen2-bias-bf16", "llama-tied-f32",
                            "llama-bias-f32", "llama3-rope-bf16", "mistral-linear-bf16"})
    for (const char* config : {"config.json", "config.transformers4.json"}) cases.push_back({model, config});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel, testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name = std::string(info.param.model) +
                     (std::string_view(info.param.config) == "config.json" ? "_new" : "_old");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(GoldenModel, HiddenStatesAndLogitsAreTheReferences) {
  const auto runner = make_runner();
  for (const int chunk : {int(prompt_.size()), 1, 7, 16}) {
    SCOPED_TRACE(chunk);
    expect_reference(test::run_prompt(*runner, prompt_, chunk));
  }
}

// The first blocks hold what another request with the same beginning has computed.
TEST_P(GoldenModel, APrefixHitChangesNoBit) {
  const test::ForwardResult whole = test::run_prompt(*make_runner(), prompt_, int(prompt_.size()));
  for (const int size : {1, 2, 4}) {
    const auto runner = make_runner(cpu_ops(), size);
    test::run_prompt(*runner, prompt_, 16);
    const size_t vocab = whole.logits.size() / prompt_.size();
    for (const int cached : {16, 48, 64}) {
      SCOPED_TRACE(cached);
      const test::ForwardResult rest = test::run_prompt(*runner, prompt_, 5, cached);
      expect_reference(rest, size_t(cached));
      EXPECT_TRUE(same_bits(
          rest.logits, {whole.logits.begin() + std::ptrdiff_t(vocab * size_t(cached)), whole.logits.end()}));
    }
  }
}

TEST_P(GoldenModel, RanksGiveTheBitsOfOne) {
  const test::ForwardResult want = test::run_prompt(*make_runner(), prompt_, int(prompt_.size()));
  for (const int size : {2, 4}) {
    const auto runner = make_runner(cpu_ops(), size);
    for (const int chunk : {int(prompt_.size()), 1, 7, 16}) {
      const test::ForwardResult got = test::run_prompt(*runner, prompt_, chunk);
      EXPECT_TRUE(same_bits(got.logits, want.logits)) << size << " ranks, chunks of " << chunk;
      for (size_t i = 0; i < want.hidden_states.size(); ++i)
        EXPECT_TRUE(same_bits(got.hidden_states[i], want.hidden_states[i])) << size << " ranks, layer " << i;
    }
  }
}

TEST_P(GoldenModel, ChunksGiveTheSameBits) {
  const auto runner = make_runner();
  const test::ForwardResult whole = test::run_prompt(*runner, prompt_, int(prompt_.size()));
  for (const int chunk : {1, 7, 16, 33}) {
    EXPECT_TRUE(same_bits(test::run_prompt(*runner, prompt_, chunk).logits, whole.logits)) << chunk;
  }
}

// All 40 steps are compared, up to one whose best two logits are nearer than 10 times the largest logit error
// of this model's whole prompt. In float32 none is.
TEST_P(GoldenModel, GreedyTokensAreTheReferences) {
  const std::vector<TokenId> want = test::reference_ids(reference_, "greedy_ids");
  const std::vector<float> margin = test::reference_array(reference_, "greedy_margin");
  ASSERT_EQ(want.size(), 40u);
  const auto runner = make_runner();
  const float error = test::largest_difference(test::run_prompt(*runner, prompt_, int(prompt_.size())).logits,
                                               test::reference_array(reference_, "logits"));
  Sequence sequence = test::make_sequence(prompt_, 0, 16);
  sequence.params.temperature = 0;
  Batch batch;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_GE(margin[i], 10 * error) << "step " << i;
    sequence.num_scheduled_tokens = sequence.num_uncomputed_tokens();
    build_batch({&sequence}, 16, batch);
    const std::span<const TokenId> ids = runner->run(batch);
    ASSERT_EQ(ids.size(), 1u);
    ASSERT_EQ(ids[0], want[i]) << "step " << i;
    sequence.num_computed_tokens = sequence.num_tokens();
    sequence.token_ids.push_back(ids[0]);
  }
}

TEST_P(GoldenModel, EveryInstructionSetGivesTheSameBits) {
  const auto best = make_runner();
  const test::ForwardResult want = test::run_prompt(*best, prompt_, int(prompt_.size()));
  const cpu::KernelList runnable = cpu::runnable_kernels();
  for (int i = 1; i < runnable.count; ++i) {
    const auto runner = make_runner(cpu_ops(runnable.sets[i]->instruction_set));
    EXPECT_TRUE(same_bits(test::run_prompt(*runner, prompt_, 11).logits, want.logits))
        << runnable.sets[i]->instruction_set;
  }
}

TEST_P(GoldenModel, APromptProjectsOneRowToTheVocabulary) {
  const auto runner = make_runner();
  Sequence sequence = test::make_sequence(prompt_, 0, 16);
  sequence.num_scheduled_tokens = sequence.num_tokens();
  Batch batch;
  build_batch({&sequence}, 16, batch);
  runner->run(batch);
  EXPECT_EQ(runner->num_logits_rows(), 1);
}

TEST_P(GoldenModel, TiedEmbeddingAndHeadAreOneStorage) {
  const auto runner = make_runner();
  const bool one =
      runner->model().embed_tokens().parameter().weight().data == runner->model().lm_head().weight().data;
  EXPECT_EQ(one, runner->model().config().tie_word_embeddings);
}

// One request of the test below: its prompt, where it stands, and the logits of each token it has generated.
struct Request {
  Sequence sequence;
  size_t start_step;
  std::vector<float> logits;

  bool done() const { return sequence.num_output_tokens() == 10; }
};

// Steps until all are done: each request that has started takes all its tokens or, at random, a chunk of
// them. Greedy.
void run_together(ModelRunner& runner, std::vector<Request>& requests, std::mt19937& random) {
  Batch batch;
  const auto all_done = [&] {
    return std::all_of(requests.begin(), requests.end(), [](auto& r) { return r.done(); });
  };
  for (size_t step = 0; !all_done(); ++step) {
    std::vector<Sequence*> scheduled;
    std::vector<Request*> sampled;
    for (Request& request : requests) {
      if (request.done() || step < request.start_step) continue;
      const int left = request.sequence.num_uncomputed_tokens();
      request.sequence.num_scheduled_tokens = random() % 2 ? left : 1 + int(random() % unsigned(left));
      scheduled.push_back(&request.sequence);
      if (request.sequence.num_scheduled_tokens == left) sampled.push_back(&request);
    }
    std::shuffle(scheduled.begin(), scheduled.end(), random);
    build_batch(scheduled, 16, batch);
    const Tensor logits = batch.num_tokens() > 0 ? runner.run_logits(batch) : Tensor{};
    const std::vector<float> rows =
        logits.defined() ? copy_to_host(*runner.ops().device, logits) : std::vector<float>{};
    int64_t row = 0;
    for (Sequence* sequence : scheduled) {
      sequence->num_computed_tokens += sequence->num_scheduled_tokens;
      if (sequence->num_uncomputed_tokens() > 0) continue;
      Request& request = **std::find_if(sampled.begin(), sampled.end(),
                                        [&](Request* r) { return &r->sequence == sequence; });
      const float* values = rows.data() + row++ * logits.shape[1];
      request.logits.insert(request.logits.end(), values, values + logits.shape[1]);
      sequence->token_ids.push_back(TokenId(std::max_element(values, values + logits.shape[1]) - values));
    }
    ASSERT_TRUE(batch.num_tokens() == 0 || row == logits.shape[0]);
  }
}

// Eight requests of different lengths, submitted at different steps, prompts cut at random, in blocks
// scattered over the cache, give bit for bit what each gives alone.
void expect_company_changes_no_bit(ModelRunner& runner, const std::vector<TokenId>& prompt) {
  std::mt19937 random(7);
  std::vector<int32_t> blocks(128);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), random);

  std::vector<Request> together;
  for (size_t i = 0; i < 8; ++i) {
    const size_t length = std::min<size_t>(prompt.size(), 1 + 9 * i);
    Sequence sequence = test::make_sequence({prompt.end() - std::ptrdiff_t(length), prompt.end()}, 0, 0);
    sequence.block_table.assign(blocks.begin() + std::ptrdiff_t(6 * i),
                                blocks.begin() + std::ptrdiff_t(6 * i + 6));
    together.push_back({sequence, i * 2, {}});
  }
  std::vector<Request> alone = together;
  run_together(runner, together, random);
  for (size_t i = 0; i < alone.size(); ++i) {
    std::vector<Request> one{alone[i]};
    one[0].start_step = 0;
    run_together(runner, one, random);
    EXPECT_EQ(together[i].sequence.token_ids, one[0].sequence.token_ids);
    EXPECT_TRUE(same_bits(together[i].logits, one[0].logits)) << "request " << i;
  }
}

TEST_P(GoldenModel, CompanyChangesNoBit) { expect_company_changes_no_bit(*make_runner(), prompt_); }

// The same on a GPU; skipped where there is none.
class GoldenModelOnGpu : public GoldenModel {
 protected:
  void SetUp() override {
    if (const std::string why = cuda_unavailable(); !why.empty()) GTEST_SKIP() << why;
  }
};
INSTANTIATE_TEST_SUITE_P(Models, GoldenModelOnGpu, testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name = std::string(info.param.model) +
                     (std::string_view(info.param.config) == "config.json" ? "_new" : "_old");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(GoldenModelOnGpu, Float32HasTheBitsOfTheCpu) {
  const test::ForwardResult want = test::run_prompt(*make_runner(), prompt_, int(prompt_.size()));
  const auto runner = make_runner(cuda_ops(DType::kF32));
  for (const int chunk : {int(prompt_.size()), 1, 7, 16}) {
    const test::ForwardResult got = test::run_prompt(*runner, prompt_, chunk);
    EXPECT_TRUE(same_bits(got.logits, want.logits)) << chunk;
    for (size_t i = 0; i < want.hidden_states.size(); ++i)
      EXPECT_TRUE(same_bits(got.hidden_states[i], want.hidden_states[i])) << "layer " << i;
    EXPECT_TRUE(same_bits(test::run_prompt(*runner, prompt_, chunk, 0, false).logits, want.logits))
        << "not traced";
  }
}

// How far transformers itself is from its float32 when it computes the model in its own 16-bit type, as a share of the largest
// logit (tools/transformers_dtype_error.py, on a GPU). It rounds at the same places, and at more of them: we may be half as far
// again.
constexpr std::pair<std::string_view, float> kErrorsOfTransformers[] = {
    {"llama3-rope-bf16", 4.61e-2f},      {"mistral-linear-bf16", 5.25e-2f},     {"qwen2-bias-bf16", 4.40e-2f},
    {"qwen3-bias-bf16", 2.19e-2f},       {"qwen3-head128-gqa8-bf16", 1.70e-2f}, {"qwen3-tied-bf16", 2.86e-2f},
    {"qwen3-yarn-f16-sharded", 4.03e-3f}};

TEST_P(GoldenModelOnGpu, ItsOwnTypeIsNearTheReference) {
  const DType dtype = read_model_config(folder_.path()).dtype.value();
  if (dtype == DType::kF32) return;
  const auto runner = make_runner(cuda_ops(dtype));
  const std::vector<float> want = test::reference_array(reference_, "logits");
  const test::ForwardResult whole = test::run_prompt(*runner, prompt_, int(prompt_.size()));
  const float error = test::largest_difference(whole.logits, want) / test::largest(want);
  RecordProperty("error", std::to_string(error));
  const auto yardstick = std::find_if(std::begin(kErrorsOfTransformers), std::end(kErrorsOfTransformers),
                                      [&](const auto& each) { return each.first == GetParam().model; });
  ASSERT_NE(yardstick, std::end(kErrorsOfTransformers));
  EXPECT_LE(error, 1.5f * yardstick->second);
  EXPECT_GT(error, 1e-5f);  // it did round
  for (const int chunk : {1, 7, 16, 33}) {
    const test::ForwardResult got = test::run_prompt(*runner, prompt_, chunk);
    EXPECT_TRUE(same_bits(got.logits, whole.logits)) << chunk;
    EXPECT_TRUE(same_bits(test::run_prompt(*runner, prompt_, chunk, 0, false).logits, whole.logits))
        << "not traced";
    for (size_t i = 0; i < whole.hidden_states.size(); ++i)
      EXPECT_TRUE(same_bits(got.hidden_states[i], whole.hidden_states[i])) << chunk << ", layer " << i;
  }
  for (const int cached : {16, 48, 64}) {
    const size_t vocab = whole.logits.size() / prompt_.size();
    EXPECT_TRUE(
        same_bits(test::run_prompt(*runner, prompt_, 5, cached).logits,
                  {whole.logits.begin() + std::ptrdiff_t(vocab * size_t(cached)), whole.logits.end()}))
        << cached;
  }
  expect_company_changes_no_bit(*runner, prompt_);
  EXPECT_EQ(
      runner->model().embed_tokens().parameter().weight().data == runner->model().lm_head().weight().data,
      runner->model().config().tie_word_embeddings);
}

// The sharded f16 checkpoint: the same numbers as one f32 file, to which f16 widens exactly, give
// the same bits. So every shard is found and every tensor is read from its own place in its own dtype.
TEST(GoldenModelSharded, IsTheSameAsOneF32File) {
  const std::filesystem::path sharded = test::golden("qwen3-yarn-f16-sharded");
  const Checkpoint checkpoint = open_checkpoint(sharded);
  std::vector<test::NamedTensor> tensors;
  for (const std::string_view name : checkpoint.names()) {
    const CheckpointTensor& tensor = *checkpoint.find(name);
    ASSERT_EQ(tensor.dtype, DType::kF16);
    std::vector<float> values(tensor.data.size() / 2);
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, tensor.data.data() + 2 * i, 2);
      values[i] = f16_to_float(bits);
    }
    tensors.push_back(test::named_tensor(std::string(name), "F32", tensor.shape, values));
  }
  const test::ScratchFolder folder;
  test::write_safetensors(folder / "model.safetensors", tensors);

  const ModelConfig config = read_model_config(sharded);
  ModelRunner from_shards(sharded, config, test::small_runner()),
      from_one(folder.path(), config, test::small_runner());
  const std::vector<TokenId> ids{5, 6, 7, 300, 2, 99};
  const test::ForwardResult a = test::run_prompt(from_shards, ids, 3), b = test::run_prompt(from_one, ids, 6);
  EXPECT_TRUE(same_bits(a.logits, b.logits));
  EXPECT_GT(test::largest(a.logits), 1);
}

}  // namespace
}  // namespace nanovllm
