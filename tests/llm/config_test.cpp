#include "llm/config.h"

#include <cmath>
#include <set>

#include "support.h"

namespace nanovllm {
namespace {

void expect_refused(std::string_view text, void (*change)(EngineConfig&)) {
  EngineConfig config;
  change(config);
  test::expect_error(ErrorKind::kConfig, text, [&] { check_config(config); });
}

TEST(EngineConfig, DefaultsAreGood) { check_config(EngineConfig{}); }

TEST(EngineConfig, RefusesWhatMakesNoSense) {
  expect_refused("tensor_parallel_size: is 0, want 1, 2 or 4",
                 [](EngineConfig& c) { c.tensor_parallel_size = 0; });
  expect_refused("tensor_parallel_size: is 3, want 1, 2 or 4",
                 [](EngineConfig& c) { c.tensor_parallel_size = 3; });
  expect_refused("num_threads: is -1, want at least 0", [](EngineConfig& c) { c.num_threads = -1; });
  expect_refused("num_threads: is 5000, want at most 1024", [](EngineConfig& c) { c.num_threads = 5000; });
  expect_refused("max_model_len: is -1, want at least 0", [](EngineConfig& c) { c.max_model_len = -1; });
  expect_refused("max_num_seqs: is 0, want at least 1", [](EngineConfig& c) { c.max_num_seqs = 0; });
  expect_refused("max_num_batched_tokens: is -5", [](EngineConfig& c) { c.max_num_batched_tokens = -5; });
  expect_refused("max_num_batched_tokens: is 4, want at least max_num_seqs=8", [](EngineConfig& c) {
    c.max_num_batched_tokens = 4;
    c.max_num_seqs = 8;
  });
  expect_refused("kvcache_block_size: is -16", [](EngineConfig& c) { c.kvcache_block_size = -16; });
  expect_refused("num_kvcache_blocks: is 0, want -1 or at least 1",
                 [](EngineConfig& c) { c.num_kvcache_blocks = 0; });
  expect_refused("num_kvcache_blocks: is -2", [](EngineConfig& c) { c.num_kvcache_blocks = -2; });
  expect_refused("cpu_kvcache_space: is -1, want 0 to 1048576 GiB",
                 [](EngineConfig& c) { c.cpu_kvcache_space = -1; });
  expect_refused("cpu_kvcache_space: is nan", [](EngineConfig& c) { c.cpu_kvcache_space = NAN; });
  for (const double share : {0.0, -0.5, 1.01, double(NAN)}) {
    EngineConfig config{.gpu_memory_utilization = share};
    test::expect_error(ErrorKind::kConfig, ", want more than 0 and at most 1", [&] { check_config(config); });
  }
  expect_refused("device: is tpu, want one of auto, cpu, cuda", [](EngineConfig& c) { c.device = "tpu"; });
  expect_refused("load_format: is gguf, want one of auto, dummy",
                 [](EngineConfig& c) { c.load_format = "gguf"; });
  expect_refused("async_scheduling: is maybe, want one of auto, on, off",
                 [](EngineConfig& c) { c.async_scheduling = "maybe"; });
  expect_refused("dtype: is int8, want one of auto, bfloat16, float16, float32",
                 [](EngineConfig& c) { c.dtype = "int8"; });
}

TEST(EngineConfig, EveryOptionHasANameAndAHelpText) {
  EngineConfig config;
  std::set<std::string> names;
  visit_options(config, [&](const char* name, auto&, const char* help) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_GT(std::string(help).size(), 10u) << name;
  });
  EXPECT_EQ(names.size(), 18u);
}

}  // namespace
}  // namespace nanovllm
