// Where on this machine a model lies that is named as on a hub ("Qwen/Qwen3-0.6B"): in what Hugging Face's and ModelScope's own
// tools have downloaded. Never the network.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace nanovllm::cli {

struct ModelCaches {
  std::filesystem::path hugging_face;              // holds models--Qwen--Qwen3-0.6B; empty: there is none
  std::vector<std::filesystem::path> model_scope;  // hold Qwen/Qwen3-0___6B
};

// get: the value of an environment variable, null where it is not set. HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME,
// XDG_CACHE_HOME, MODELSCOPE_CACHE and HOME count, as for the hubs' tools.
ModelCaches model_caches(const std::function<const char*(const char*)>& get);

// The folder of a model: `name` itself if it exists or is no name as on a hub, else what a cache has, of Hugging Face's the
// snapshot that refs/main names, or the only one. throws Error(kConfig): none has it, with where it was looked for
std::filesystem::path find_model(const std::filesystem::path& name, const ModelCaches& caches);

}  // namespace nanovllm::cli
