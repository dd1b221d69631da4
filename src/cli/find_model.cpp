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

// What one cache says of a model: its folder, or what there is instead.
struct Found {
  fs::path folder;
  std::string instead = "not there";
};

Found check_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!is_folder(folder)) return {};
  for (const char* file : {"config.json", "tokenizer.json"})
    if (fs::exists(folder / file, ignored)) return {.folder = folder};
  return {.instead = "not downloaded whole"};
}

// The snapshot that refs/main names, or the only one.
Found find_snapshot(const fs::path& repository) {
  const fs::path snapshots = repository / "snapshots";
  std::string commit;
  if (std::ifstream(repository / "refs" / "main") >> commit && is_word(commit) &&
      is_folder(snapshots / commit))
    return check_folder(snapshots / commit);
  std::error_code ignored;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(snapshots, ignored)) folders.push_back(entry.path());
  if (folders.size() > 1)
    return {.instead =
                std::to_string(folders.size()) + " snapshots and no refs/main: give one of them as folder"};
  return folders.empty() ? Found{} : check_folder(folders[0]);
}

// "~/models", as shells have it and the hubs' tools read it.
fs::path expand_home(const std::string& path, const std::string& home) {
  return path == "~" || path.starts_with("~/") ? fs::path(home + path.substr(1)) : fs::path(path);
}

}  // namespace

ModelCaches model_caches(const std::function<const char*(const char*)>& get) {
  const char* home_variable = get("HOME");
  const std::string home = home_variable ? home_variable : "";
  // The first variable that is set; empty: none, and no home to put the default in.
  const auto first_of = [&](std::initializer_list<std::pair<const char*, const char*>> variables,
                            const char* below_home) {
    for (const auto& [name, below] : variables)
      if (const char* value = get(name); value && *value)
        return *below ? expand_home(value, home) / below : expand_home(value, home);
    return home.empty() ? fs::path() : home / fs::path(below_home);
  };
  ModelCaches caches{.hugging_face = first_of({{"HF_HUB_CACHE", ""},
                                               {"HUGGINGFACE_HUB_CACHE", ""},
                                               {"HF_HOME", "hub"},
                                               {"XDG_CACHE_HOME", "huggingface/hub"}},
                                              ".cache/huggingface/hub")};
  // ModelScope's versions put models at three depths.
  const fs::path model_scope = first_of({{"MODELSCOPE_CACHE", ""}}, ".cache/modelscope/hub");
  if (!model_scope.empty()) caches.model_scope = {model_scope / "models", model_scope, model_scope / "hub"};
  return caches;
}

fs::path find_model(const fs::path& name, const ModelCaches& caches) {
  std::error_code ignored;
  const std::optional<HubName> hub = parse_hub_name(name.string());
  if (!hub || fs::exists(name, ignored)) return name;

  std::string tried;
  const auto add_tried = [&](const fs::path& path, const Found& found) {
    tried += (tried.empty() ? "" : ", ") + path.string() + " (" + found.instead + ")";
  };
  if (!caches.hugging_face.empty()) {
    const fs::path repository = caches.hugging_face / ("models--" + hub->owner + "--" + hub->model);
    const Found found = find_snapshot(repository);
    if (!found.folder.empty()) return found.folder;
    add_tried(repository, found);
  }
  std::string masked;  // ModelScope writes a dot as three underscores
  for (const char c : hub->model) masked += c == '.' ? "___" : std::string(1, c);
  for (const fs::path& cache : caches.model_scope) {
    const fs::path folder = cache / hub->owner / masked;
    const Found found = check_folder(folder);
    if (!found.folder.empty()) return found.folder;
    add_tried(folder, found);
  }
  fail(ErrorKind::kConfig, name.string(),
       ": no such folder, and no model of that name in the caches of this machine: ",
       tried.empty() ? "HOME is not set" : tried,
       "; want a model folder, or one that Hugging Face's or ModelScope's tools have downloaded");
}

}  // namespace nanovllm::cli
