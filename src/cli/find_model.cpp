#include "cli/find_model.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace nanovllm::cli {
namespace {

namespace fs = std::filesystem;

struct HubName {
  std::string owner, model;
};

bool is_word(std::string_view text) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !text.empty() && text.front() != '.' && text.find_first_not_of(kLetters) == text.npos;
}

// "Qwen/Qwen3-0.6B", not "./models/demo" or "models/demo/"
std::optional<HubName> parse_hub_name(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == name.npos) return std::nullopt;
  const HubName hub{name.substr(0, slash), name.substr(slash + 1)};
  return is_word(hub.owner) && is_word(hub.model) ? std::optional(hub) : std::nullopt;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Empty where the cache does not have it.
fs::path find_snapshot(const fs::path& repository) {
  const fs::path snapshots = repository / "snapshots";
  std::string commit;
  if (std::ifstream(repository / "refs" / "main") >> commit && is_word(commit) &&
      is_folder(snapshots / commit))
    return snapshots / commit;
  std::error_code ignored;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(snapshots, ignored)) folders.push_back(entry.path());
  return folders.size() == 1 && is_folder(folders[0]) ? folders[0] : fs::path();
}

}  // namespace

ModelCaches model_caches(const std::function<const char*(const char*)>& get) {
  const auto path = [&](const char* name) {
    const char* value = get(name);
    return fs::path(value ? value : "");
  };
  const fs::path home = path("HOME") / ".cache";
  const fs::path cache = path("XDG_CACHE_HOME").empty() ? home : path("XDG_CACHE_HOME");
  const fs::path hf_home = path("HF_HOME").empty() ? cache / "huggingface" : path("HF_HOME");
  ModelCaches caches{.hugging_face = path("HF_HUB_CACHE").empty() ? hf_home / "hub" : path("HF_HUB_CACHE")};
  // Its versions put models at three depths.
  const fs::path model_scope =
      path("MODELSCOPE_CACHE").empty() ? home / "modelscope" / "hub" : path("MODELSCOPE_CACHE");
  caches.model_scope = {model_scope / "models", model_scope, model_scope / "hub"};
  return caches;
}

fs::path find_model(const fs::path& name, const ModelCaches& caches) {
  std::error_code ignored;
  const std::optional<HubName> hub = parse_hub_name(name.string());
  if (!hub || fs::exists(name, ignored)) return name;

  const fs::path repository = caches.hugging_face / ("models--" + hub->owner + "--" + hub->model);
  std::string tried = repository.string();
  if (const fs::path snapshot = find_snapshot(repository); !snapshot.empty()) return snapshot;
  std::string masked;  // ModelScope writes a dot as three underscores
  for (const char c : hub->model) masked += c == '.' ? "___" : std::string(1, c);
  for (const fs::path& cache : caches.model_scope) {
    const fs::path folder = cache / hub->owner / masked;
    tried += ", " + folder.string();
    if (is_folder(folder)) return folder;
  }
  fail(ErrorKind::kConfig, name.string(), ": no such folder, and no model of that name in ", tried,
       ": want a model folder, or one that Hugging Face's or ModelScope's tools have downloaded");
}

}  // namespace nanovllm::cli
