// The engine's options, each with its default and its reason. One place: --help and every other front end
// show what visit_options() lists.
#pragma once

#include <filesystem>
#include <string>

namespace nanovllm {

struct EngineConfig {
  std::filesystem::path model;  // a Hugging Face folder: config.json, *.safetensors, tokenizer.json
  std::string device = "auto";
  std::string dtype = "auto";
  std::string load_format = "auto";
  int tensor_parallel_size = 1;
  int num_threads = 0;
  int max_model_len = 0;
  int max_num_seqs = 256;
  int max_logprobs = 20;
  int max_num_batched_tokens = 0;
  int kvcache_block_size = 0;
  int num_kvcache_blocks = -1;
  double cpu_kvcache_space = 0;
  double gpu_memory_utilization = 0.9;
  bool prefix_caching = true;
  bool enforce_eager = false;
  std::string async_scheduling = "auto";
  std::string trace_steps;
  std::string instruction_set;
};

// visit(name, field, help) for every option; names as in nano-vllm and vLLM where these have them.
template <class Config, class Visitor>
void visit_options(Config& config, Visitor&& visit) {
  visit("device", config.device, "cpu, cuda, or auto: a GPU if there is one");
  visit("dtype", config.dtype,
        "of activations and KV cache on a GPU: bfloat16, float16, float32, or auto: the model's own; the CPU "
        "computes in float32");
  visit("load_format", config.load_format,
        "auto: the folder's safetensors; dummy: random weights of config.json's shapes, for benchmarks");
  visit("tensor_parallel_size", config.tensor_parallel_size,
        "ranks that share the work of every layer: 1, 2 or 4, on the CPU threads; no answer depends on it");
  visit("num_threads", config.num_threads, "CPU threads (0: every processor that this process may use)");
  visit("max_model_len", config.max_model_len,
        "longest sequence in tokens, prompt and output (0: what the model was made for)");
  visit("max_num_seqs", config.max_num_seqs, "most sequences that run at once; more of them wait");
  visit("max_logprobs", config.max_logprobs,
        "most logprobs that a request may want of a token; -1: no limit, and all tokens may be wanted");
  visit("max_num_batched_tokens", config.max_num_batched_tokens,
        "most tokens of one step: larger makes prompts faster, smaller keeps running answers fluent (0: the "
        "backend's)");
  visit("kvcache_block_size", config.kvcache_block_size,
        "tokens per block of the KV cache (0: the backend's)");
  visit("num_kvcache_blocks", config.num_kvcache_blocks, "blocks of the KV cache (-1: as memory allows)");
  visit("cpu_kvcache_space", config.cpu_kvcache_space,
        "GiB for the KV cache on the CPU (0: a quarter of the memory that is free after loading)");
  visit("gpu_memory_utilization", config.gpu_memory_utilization,
        "share of the GPU's memory for weights, activations and KV cache together");
  visit("prefix_caching", config.prefix_caching,
        "keep computed prompts in the KV cache for requests that begin alike; it changes no answer");
  visit("enforce_eager", config.enforce_eager,
        "launch every kernel of a GPU's step by itself, without CUDA graphs: for debugging; it changes no "
        "answer");
  visit(
      "async_scheduling", config.async_scheduling,
      "on: a step is begun before the tokens of the one before it are known, so that a GPU does not wait for "
      "the scheduler; off; auto: on for a GPU. It changes no answer");
  visit("trace_steps", config.trace_steps,
        "file for a timeline of every step (scheduler, launch, device, output), for chrome://tracing or "
        "Perfetto");
  visit("instruction_set", config.instruction_set,
        "kernels to use: avx512, avx2 or portable; all give the same bits (default: the best that this "
        "processor runs)");
}

// throws Error(kConfig): a value that makes no sense, with what was wanted
void check_config(const EngineConfig& config);

}  // namespace nanovllm
