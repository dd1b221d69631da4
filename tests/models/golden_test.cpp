// Every Qwen3 model of tests/golden against Hugging Face transformers in float32.
//
// The bound 2e-5 · max|reference| is the project's: both sides compute in float32 and differ in the order of
// sums. A step of float32 has 6e-8 relative error; products here have up to 1,024 terms in up to three
// layers, each renormalised.
#include "models/golden.h"

#include <numeric>
#include <random>

#include "base/file.h"
#include "models/model_config.h"
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

  std::unique_ptr<ModelRunner> make_runner(const OpTable& ops = cpu_ops()) {
    return std::make_unique<ModelRunner>(folder_.path(), read_model_config(folder_.path()),
                                         test::small_runner(ops));
  }

  test::ScratchFolder folder_;
  Checkpoint reference_;
  std::vector<TokenId> prompt_;
};

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel,
                         testing::Values(Case{"qwen3-tied-bf16", "config.json"},
                                         Case{"qwen3-tied-bf16", "config.transformers4.json"},
                                         Case{"qwen3-untied-f32", "config.json"},
                                         Case{"qwen3-untied-f32", "config.transformers4.json"},
                                         Case{"qwen3-head128-gqa8-bf16", "config.json"},
                                         Case{"qwen3-head128-gqa8-bf16", "config.transformers4.json"}));

TEST_P(GoldenModel, HiddenStatesAndLogitsAreTheReferences) {
  const std::vector<float> logits = test::reference_array(reference_, "logits");
  const std::vector<float> hidden = test::reference_array(reference_, "hidden_states");
  const auto runner = make_runner();
  for (const int chunk : {int(prompt_.size()), 1, 7, 16}) {
    const test::ForwardResult result = test::run_prompt(*runner, prompt_, chunk);
    EXPECT_LE(test::largest_difference(result.logits, logits), kRelativeBound * test::largest(logits))
        << chunk;
    const size_t size = result.hidden_states[0].size();
    ASSERT_EQ(result.hidden_states.size() * size, hidden.size());
    for (size_t layer = 0; layer < result.hidden_states.size(); ++layer) {
      const std::vector<float> want(hidden.begin() + std::ptrdiff_t(layer * size),
                                    hidden.begin() + std::ptrdiff_t((layer + 1) * size));
      EXPECT_LE(test::largest_difference(result.hidden_states[layer], want),
                kRelativeBound * test::largest(want))
          << "layer " << layer << ", chunks of " << chunk;
    }
  }
}

TEST_P(GoldenModel, ChunksGiveTheSameBits) {
  const auto runner = make_runner();
  const test::ForwardResult whole = test::run_prompt(*runner, prompt_, int(prompt_.size()));
  for (const int chunk : {1, 7, 16, 33}) {
    const test::ForwardResult parts = test::run_prompt(*runner, prompt_, chunk);
    EXPECT_EQ(std::memcmp(parts.logits.data(), whole.logits.data(), whole.logits.size() * sizeof(float)), 0)
        << chunk;
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
    const test::ForwardResult got = test::run_prompt(*runner, prompt_, 11);
    EXPECT_EQ(std::memcmp(got.logits.data(), want.logits.data(), want.logits.size() * sizeof(float)), 0)
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
    int64_t row = 0;
    for (Sequence* sequence : scheduled) {
      sequence->num_computed_tokens += sequence->num_scheduled_tokens;
      if (sequence->num_uncomputed_tokens() > 0) continue;
      Request& request = **std::find_if(sampled.begin(), sampled.end(),
                                        [&](Request* r) { return &r->sequence == sequence; });
      const float* values = logits[row++].ptr<float>();
      request.logits.insert(request.logits.end(), values, values + logits.shape[1]);
      sequence->token_ids.push_back(TokenId(std::max_element(values, values + logits.shape[1]) - values));
    }
    ASSERT_TRUE(batch.num_tokens() == 0 || row == logits.shape[0]);
  }
}

// Eight requests of different lengths, submitted at different steps, prompts cut at random, in blocks
// scattered over the cache, give bit for bit what each gives alone.
TEST_P(GoldenModel, CompanyChangesNoBit) {
  const auto runner = make_runner();
  std::mt19937 random(7);
  std::vector<int32_t> blocks(128);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), random);

  std::vector<Request> together;
  for (size_t i = 0; i < 8; ++i) {
    const size_t length = std::min<size_t>(prompt_.size(), 1 + 9 * i);
    Sequence sequence = test::make_sequence({prompt_.end() - std::ptrdiff_t(length), prompt_.end()}, 0, 0);
    sequence.block_table.assign(blocks.begin() + std::ptrdiff_t(6 * i),
                                blocks.begin() + std::ptrdiff_t(6 * i + 6));
    together.push_back({sequence, i * 2, {}});
  }
  std::vector<Request> alone = together;
  run_together(*runner, together, random);
  for (size_t i = 0; i < alone.size(); ++i) {
    std::vector<Request> one{alone[i]};
    one[0].start_step = 0;
    run_together(*runner, one, random);
    EXPECT_EQ(together[i].sequence.token_ids, one[0].sequence.token_ids);
    ASSERT_EQ(together[i].logits.size(), one[0].logits.size());
    EXPECT_EQ(
        std::memcmp(together[i].logits.data(), one[0].logits.data(), one[0].logits.size() * sizeof(float)), 0)
        << "request " << i;
  }
}

TEST(GoldenModelYarn, IsRefusedByName) {
  for (const char* config : {"config.json", "config.transformers4.json"})
    test::expect_error(ErrorKind::kUnsupported, "rope_type is yarn", [&] {
      parse_model_config(read_file(test::golden("qwen3-yarn-f16-sharded") / config), config);
    });
}

// The sharded f16 checkpoint, its rope scaling aside: the same numbers as one f32 file, to which f16 widens exactly, give
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

  const ModelConfig config = read_model_config(test::golden("qwen3-tied-bf16"));  // of the same shape
  ModelRunner from_shards(sharded, config, test::small_runner()),
      from_one(folder.path(), config, test::small_runner());
  const std::vector<TokenId> ids{5, 6, 7, 300, 2, 99};
  const test::ForwardResult a = test::run_prompt(from_shards, ids, 3), b = test::run_prompt(from_one, ids, 6);
  EXPECT_EQ(std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)), 0);
  EXPECT_GT(test::largest(a.logits), 1);
}

}  // namespace
}  // namespace nanovllm
