#include "models/load.h"

#include <gtest/gtest.h>

#include <map>

#include "layers/layer_bench.h"
#include "models/tiny_model.h"

namespace nanovllm {
namespace {

using test::NamedTensor;
using test::Rows;
using test::tiny_checkpoint;
using test::tiny_checkpoint_in;

// A model folder, loaded.
class Loaded {
 public:
  explicit Loaded(const std::vector<NamedTensor>& tensors, bool tied = false, size_t misalignment = 0) {
    test::write_tiny_model(folder_, tensors, misalignment);
    ModelConfig config = read_model_config(folder_.path());
    config.tie_word_embeddings = tied;
    model_.emplace(config, host_device(), 64, TensorParallel{});
    test::OpBench bench;
    const Checkpoint checkpoint = open_checkpoint(folder_.path());
    check_parameters(checkpoint, folder_.path().string(), *model_);
    load_parameters(bench.ctx, checkpoint, *model_);
  }

  Decoder& model() { return *model_; }
  // Every parameter by the name of its first part.
  std::map<std::string, Rows> parameters() {
    std::map<std::string, Rows> result;
    model_->visit_parameters([&](const Parameter& parameter) {
      EXPECT_TRUE(result.emplace(parameter.parts()[0].name, test::read_parameter(parameter)).second);
    });
    return result;
  }

 private:
  test::ScratchFolder folder_;
  std::optional<Decoder> model_;
};

// Loading must fail with this text; FOLDER in it stands for the model folder.
void expect_refused(const std::vector<NamedTensor>& tensors, std::string text,
                    ErrorKind kind = ErrorKind::kCheckpoint) {
  test::ScratchFolder folder;
  test::write_tiny_model(folder, tensors);
  if (const size_t at = text.find("FOLDER"); at != std::string::npos)
    text.replace(at, 6, folder.path().string());
  Decoder model(read_model_config(folder.path()), host_device(), 64, TensorParallel{});
  test::expect_error(
      kind, text, [&] { check_parameters(open_checkpoint(folder.path()), folder.path().string(), model); });
}

std::vector<NamedTensor> without(const std::vector<std::string>& names) {
  std::vector<NamedTensor> tensors = tiny_checkpoint();
  std::erase_if(tensors, [&](const NamedTensor& t) {
    return std::find(names.begin(), names.end(), t.name) != names.end();
  });
  return tensors;
}

std::vector<NamedTensor> with(const std::vector<NamedTensor>& more) {
  std::vector<NamedTensor> tensors = tiny_checkpoint();
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
}

NamedTensor zeros(const std::string& name, std::vector<int64_t> shape) {
  int64_t size = 1;
  for (const int64_t n : shape) size *= n;
  return test::named_tensor(name, "F32", std::move(shape), std::vector<float>(size_t(size)));
}

TEST(Load, EveryParameterHasTheValuesOfItsTensors) {
  Loaded loaded(tiny_checkpoint());
  std::map<std::string, Rows> want;
  std::set<std::string> names;
  loaded.model().visit_parameters([&](const Parameter& parameter) {
    Rows rows;
    for (const ParameterPart& part : parameter.parts()) {
      EXPECT_TRUE(names.insert(part.name).second) << part.name << " is used twice";
      for (int64_t r = 0; r < part.rows; ++r) {
        rows.emplace_back();
        for (int64_t c = 0; c < parameter.in_features(); ++c)
          rows.back().push_back(test::tiny_value(part.name, r * parameter.in_features() + c));
      }
    }
    want[parameter.parts()[0].name] = parameter.values().defined() ? test::as_vector(rows) : rows;
  });
  EXPECT_EQ(loaded.parameters(), want);
  EXPECT_EQ(names.size(), test::tiny_tensors().size());  // all of the file
}

// The forward takes q, k, v and gate, up from where they lie in the stacked product.
TEST(Load, PartsAreStackedInTheOrderOfTheForward) {
  const std::string attn = "model.layers.1.self_attn.", mlp = "model.layers.1.mlp.";
  std::vector<std::vector<std::string>> stacked;
  Loaded loaded(tiny_checkpoint());
  loaded.model().visit_parameters([&](const Parameter& parameter) {
    std::vector<std::string> names;
    for (const ParameterPart& part : parameter.parts()) names.push_back(part.name);
    if (names.size() > 1 && names[0].starts_with("model.layers.1.")) stacked.push_back(names);
  });
  EXPECT_EQ(stacked, (std::vector<std::vector<std::string>>{
                         {attn + "q_proj.weight", attn + "k_proj.weight", attn + "v_proj.weight"},
                         {mlp + "gate_proj.weight", mlp + "up_proj.weight"}}));
}

TEST(Load, AMissingTensorIsNamed) {
  expect_refused(without({"model.layers.1.self_attn.k_norm.weight"}),
                 "FOLDER: has no model.layers.1.self_attn.k_norm.weight, which Qwen3ForCausalLM needs");
  expect_refused(without({"lm_head.weight"}), "FOLDER: has no lm_head.weight, which Qwen3ForCausalLM needs");
}

TEST(Load, MissingTensorsAreListedInTheOrderOfTheModel) {
  expect_refused(without({"model.norm.weight", "model.layers.0.mlp.up_proj.weight",
                          "model.layers.0.self_attn.v_proj.weight", "model.embed_tokens.weight",
                          "model.layers.1.mlp.down_proj.weight"}),
                 "FOLDER: has no model.embed_tokens.weight, model.layers.0.self_attn.v_proj.weight, "
                 "model.layers.0.mlp.up_proj.weight, model.layers.1.mlp.down_proj.weight, model.norm.weight, "
                 "which Qwen3ForCausalLM needs");
}

TEST(Load, AfterFiveMissingTensorsTheRestIsCounted) {
  expect_refused({test::tiny_tensor({"model.norm.weight", {8}}, DType::kF32)},
                 ".weight and 19 more, which Qwen3");
}

TEST(Load, SurplusTensorsAreNamed) {
  expect_refused(
      with({zeros("model.layers.2.input_layernorm.weight", {8})}),
      "FOLDER: has model.layers.2.input_layernorm.weight, which Qwen3ForCausalLM has no place for");
  // A bias that config.json does not speak of must not be left out in silence.
  expect_refused(with({zeros("model.layers.0.self_attn.q_proj.bias", {16})}),
                 "FOLDER: has model.layers.0.self_attn.q_proj.bias, which Qwen3ForCausalLM has no place for");
  std::vector<NamedTensor> many;
  for (const char* letter : {"a", "b", "c", "d", "e", "f", "g"}) many.push_back(zeros(letter, {1}));
  expect_refused(with(many), "FOLDER: has a, b, c, d, e and 2 more, which Qwen3ForCausalLM has no place for");
}

TEST(Load, AWrongShapeNamesFileTensorAndBothShapes) {
  auto tensors = without({"model.layers.1.self_attn.k_proj.weight"});
  tensors.push_back(zeros("model.layers.1.self_attn.k_proj.weight", {8, 9}));
  expect_refused(
      tensors,
      "FOLDER/model.safetensors: model.layers.1.self_attn.k_proj.weight is [8, 9] f32, want [8, 8] as "
      "config.json says");
  tensors = without({"model.norm.weight"});
  tensors.push_back(zeros("model.norm.weight", {1, 8}));
  expect_refused(tensors,
                 "FOLDER/model.safetensors: model.norm.weight is [1, 8] f32, want [8] as config.json says");
}

TEST(Load, AnUnreadableDtypeIsNamed) {
  auto tensors = without({"model.norm.weight"});
  tensors.push_back(test::named_tensor("model.norm.weight", "F8_E4M3", {8}, std::vector<uint8_t>(8)));
  expect_refused(tensors, "FOLDER/model.safetensors: model.norm.weight is F8_E4M3, want F32, F16 or BF16",
                 ErrorKind::kUnsupported);
}

// config.json may forget to say so: the tensors do not.
TEST(Load, QuantizedWeightsAreRefusedByName) {
  const std::string layer = "model.layers.0.self_attn.q_proj";
  for (const auto& [suffix, format] :
       std::vector<std::pair<std::string, std::string>>{{".qweight", "GPTQ or AWQ"},
                                                        {".weight_scale_inv", "FP8"},
                                                        {".weight_packed", "packed"},
                                                        {".weight.absmax", "bitsandbytes 4-bit"},
                                                        {".SCB", "bitsandbytes 8-bit"}}) {
    std::vector<NamedTensor> tensors = without({layer + ".weight"});
    tensors.push_back(zeros(layer + suffix, {4}));
    expect_refused(tensors,
                   "FOLDER: has " + layer + suffix + ", so its weights are quantized (" + format +
                       "), want plain f32, f16 or bf16 weights: take the folder that it was made from",
                   ErrorKind::kUnsupported);
  }
}

TEST(Load, ATiedHeadInTheFileIsIgnored) {
  Loaded with_head(tiny_checkpoint(true), true), without_head(tiny_checkpoint(false), true);
  EXPECT_FALSE(with_head.parameters().contains("lm_head.weight"));
  EXPECT_EQ(with_head.parameters(), without_head.parameters());
  EXPECT_EQ(with_head.model().lm_head().weight().data,
            with_head.model().embed_tokens().parameter().weight().data);
}

TEST(Load, AnUntiedHeadIsItsOwn) {
  Loaded loaded(tiny_checkpoint());
  EXPECT_NE(loaded.model().lm_head().weight().data, loaded.model().embed_tokens().parameter().weight().data);
}

// Rank 0 has all parameters, which check_parameters rests on; others lack what only rank 0 adds.
TEST(Load, ARankHasWhatIsLeftOfTheModel) {
  test::ScratchFolder folder;
  test::write_tiny_model(folder, test::tiny_bias_checkpoint(), 0, test::kTinyBiasConfig);
  const ModelConfig config = read_model_config(folder.path());
  const auto names_of = [&](TensorParallel tp) {
    std::set<std::string> names;
    Decoder model(config, host_device(), 64, tp);
    model.visit_parameters([&](const Parameter& parameter) {
      for (const ParameterPart& part : parameter.parts()) names.insert(part.name);
    });
    return names;
  };
  const std::set<std::string> all = names_of({0, 1});
  EXPECT_EQ(names_of({0, 2}), all);
  std::set<std::string> without_biases = all;
  std::erase_if(without_biases, [](const std::string& name) {
    return name.ends_with("o_proj.bias") || name.ends_with("down_proj.bias");
  });
  EXPECT_EQ(all.size() - without_biases.size(), 4u);
  EXPECT_EQ(names_of({1, 2}), without_biases);
}

TEST(Load, InverseFrequenciesInTheFileAreIgnored) {
  Loaded loaded(with({zeros("model.layers.0.self_attn.rotary_emb.inv_freq", {2}),
                      zeros("model.layers.1.self_attn.rotary_emb.inv_freq", {2})}));
  EXPECT_EQ(loaded.parameters(), Loaded(tiny_checkpoint()).parameters());
}

TEST(Load, EachTensorIsReadInItsOwnDtype) {
  const auto f32 = Loaded(tiny_checkpoint()).parameters();
  for (const DType dtype : {DType::kF16, DType::kBF16})
    EXPECT_EQ(Loaded(tiny_checkpoint_in([=](auto&) { return dtype; })).parameters(), f32);
  // A bf16 model with its norms in f32.
  EXPECT_EQ(Loaded(tiny_checkpoint_in([](const std::string& name) {
              return name.find("norm") != std::string::npos ? DType::kF32 : DType::kBF16;
            })).parameters(),
            f32);
  // Three dtypes in one qkv, two in one gate_up.
  EXPECT_EQ(Loaded(tiny_checkpoint_in([](const std::string& name) {
              if (name.find("q_proj") != std::string::npos || name.find("up_proj") != std::string::npos)
                return DType::kF16;
              return name.find("v_proj") != std::string::npos ? DType::kF32 : DType::kBF16;
            })).parameters(),
            f32);
}

TEST(Load, DummyWeightsFillEveryParameterWithoutAFile) {
  const auto filled = [](uint64_t seed, TensorParallel tp) {
    test::ScratchFolder folder;
    test::write_tiny_model(folder, tiny_checkpoint());
    Decoder model(read_model_config(folder.path()), host_device(), 64, tp);
    test::OpBench bench;
    load_dummy_parameters(bench.ctx, seed, model);
    std::map<std::string, Rows> values;
    model.visit_parameters([&](const Parameter& parameter) {
      values[parameter.parts()[0].name] = test::read_parameter(parameter);
    });
    return values;
  };
  const auto values = filled(1, {});
  for (const auto& [name, rows] : values) {
    std::set<float> different;
    for (const auto& row : rows)
      for (const float value : row) {
        EXPECT_LE(std::fabs(value), name.find("norm") != std::string::npos ? 1.0f : 0.035f) << name;
        different.insert(value);
      }
    EXPECT_EQ(different.size() == 1, name.find("norm") != std::string::npos) << name;
  }
  EXPECT_EQ(filled(1, {}), values);
  EXPECT_NE(filled(2, {}), values);
  EXPECT_EQ(filled(1, {.rank = 1, .size = 2}).size(), values.size());
}

// A GPU's tensor cores want both sides of a product in one type; norms stay float32 all the same.
TEST(Load, AMatrixOfAnotherTypeThanTheBackendsIsNamed) {
  OpTable ops = cpu_ops();
  ops.activation_dtype = DType::kBF16;
  ops.weights_are_T = true;
  const auto load = [&](const std::vector<NamedTensor>& tensors) {
    test::ScratchFolder folder;
    test::write_tiny_model(folder, tensors);
    Decoder model(read_model_config(folder.path()), host_device(), 64, TensorParallel{});
    test::OpBench bench;
    Context ctx{.ops = ops, .arena = bench.arena, .comm = bench.one_rank, .threads = &bench.threads};
    load_parameters(ctx, open_checkpoint(folder.path()), model);
  };
  load(tiny_checkpoint_in([](const std::string& name) {
    return name.find("norm") != std::string::npos ? DType::kF32 : DType::kBF16;
  }));
  test::expect_error(ErrorKind::kUnsupported,
                     "model.layers.0.self_attn.v_proj.weight is f16, want bf16 to compute in it", [&] {
                       load(tiny_checkpoint_in([](const std::string& name) {
                         return name.find("v_proj") != std::string::npos ? DType::kF16 : DType::kBF16;
                       }));
                     });
}

TEST(Load, AWeightKeepsItsDtypeAndAMixedOneIsF32) {
  Loaded loaded(tiny_checkpoint_in([](const std::string& name) {
    return name.find("v_proj") != std::string::npos ? DType::kF16 : DType::kBF16;
  }));
  loaded.model().visit_parameters([](const Parameter& parameter) {
    if (!parameter.weight().defined()) return;
    const bool mixed = parameter.parts().size() == 3;
    EXPECT_EQ(int(parameter.weight().dtype), int(mixed ? DType::kF32 : DType::kBF16))
        << parameter.parts()[0].name;
  });
}

TEST(Load, DataMayBeginAnywhere) {
  const auto dtype_of = [](const std::string& name) {
    return name.find("mlp") != std::string::npos ? DType::kF32 : DType::kBF16;
  };
  const auto aligned = Loaded(tiny_checkpoint_in(dtype_of)).parameters();
  for (const size_t misalignment : {1, 2, 3, 5})
    EXPECT_EQ(Loaded(tiny_checkpoint_in(dtype_of), false, misalignment).parameters(), aligned)
        << misalignment;
}

TEST(Load, ALargeF32ValueStaysWhatItIs) {
  auto tensors = without({"model.norm.weight"});
  const std::vector<float> large{65504, 65536, 1e30f, -1e30f, 1e-30f, 0, -0.0f, 1};
  tensors.push_back(test::named_tensor("model.norm.weight", "F32", {8}, large));
  EXPECT_EQ(Loaded(tensors).parameters()["model.norm.weight"], (Rows{large}));
}

}  // namespace
}  // namespace nanovllm
