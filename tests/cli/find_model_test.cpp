#include "cli/find_model.h"

#include <map>

#include "support.h"

namespace nanovllm::cli {
namespace {

namespace fs = std::filesystem;

using Variables = std::map<std::string, std::string>;

ModelCaches caches_with(const Variables& variables) {
  return model_caches([&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(ModelCaches, AreWhereTheHubsToolsPutThem) {
  const auto hugging_face = [](const Variables& variables) { return caches_with(variables).hugging_face; };
  EXPECT_EQ(hugging_face({{"HOME", "/a"}}), "/a/.cache/huggingface/hub");
  EXPECT_EQ(hugging_face({{"HOME", "/a"}, {"XDG_CACHE_HOME", "/x"}}), "/x/huggingface/hub");
  EXPECT_EQ(hugging_face({{"HOME", "/a"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "/hf"}}), "/hf/hub");
  EXPECT_EQ(hugging_face({{"HF_HOME", "/hf"}, {"HF_HUB_CACHE", "/hub"}}), "/hub");
  EXPECT_EQ(hugging_face({{"HOME", "/a"}, {"HF_HOME", ""}}), "/a/.cache/huggingface/hub");
  EXPECT_EQ(hugging_face({{"HF_HOME", "/hf"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}), "/old");
  EXPECT_EQ(hugging_face({{"HOME", "/a"}, {"HF_HOME", "~/hf"}}), "/a/hf/hub");
  EXPECT_EQ(hugging_face({}), "");  // not in the folder where one happens to be
  EXPECT_TRUE(caches_with({}).model_scope.empty());
  EXPECT_EQ(caches_with({{"HOME", "/a"}}).model_scope[0], "/a/.cache/modelscope/hub/models");
  EXPECT_EQ(caches_with({{"HOME", "/a"}}).model_scope[1], "/a/.cache/modelscope/hub");
  EXPECT_EQ(caches_with({{"MODELSCOPE_CACHE", "/ms"}}).model_scope[0], "/ms/models");
  EXPECT_EQ(caches_with({{"MODELSCOPE_CACHE", "/ms"}}).model_scope[2], "/ms/hub");
}

class FindModel : public testing::Test {
 protected:
  FindModel() : caches_{caches_with({{"HOME", folder_.path().string()}})} {}

  // A folder that looks like a model's.
  fs::path make(const std::string& path) {
    folder_.write(path + "/config.json", "{}");
    return folder_ / path;
  }
  fs::path find(const std::string& name) const { return find_model(name, caches_); }

  const std::string hub_ = ".cache/huggingface/hub/models--Qwen--Qwen3-0.6B/";
  test::ScratchFolder folder_;
  ModelCaches caches_;
};

TEST_F(FindModel, AFolderIsItself) {
  EXPECT_EQ(find(folder_.path().string()), folder_.path());
  EXPECT_EQ(find("/nowhere/at/all"), "/nowhere/at/all");  // whoever reads it says that it is none
  for (const char* name : {"demo", "./demo", "../a", "a/b/c", "a/", "/a", "a/b c", "a/..", "~/a", ""})
    EXPECT_EQ(find(name), name);
}

TEST_F(FindModel, OneThatExistsGoesFirst) {
  const fs::path snapshot = make(hub_ + "snapshots/abc");
  const fs::path before = fs::current_path();
  make("work/Qwen/Qwen3-0.6B");
  fs::current_path(folder_ / "work");
  EXPECT_EQ(find("Qwen/Qwen3-0.6B"), "Qwen/Qwen3-0.6B");
  fs::current_path(folder_.path());
  EXPECT_EQ(find("Qwen/Qwen3-0.6B"), snapshot);
  fs::current_path(before);
}

TEST_F(FindModel, TheSnapshotThatMainNames) {
  make(hub_ + "snapshots/abc");
  const fs::path main = make(hub_ + "snapshots/def");
  folder_.write(hub_ + "refs/main", "def\n");
  EXPECT_EQ(find("Qwen/Qwen3-0.6B"), main);
  folder_.write(hub_ + "refs/main", "def");
  EXPECT_EQ(find("Qwen/Qwen3-0.6B"), main);
}

TEST_F(FindModel, WithoutMainTheOnlySnapshot) {
  const fs::path only = make(hub_ + "snapshots/abc");
  EXPECT_EQ(find("Qwen/Qwen3-0.6B"), only);
  for (const char* main : {"gone", "", "../../../../..", "../abc/."}) {  // not there, or no commit
    folder_.write(hub_ + "refs/main", main);
    EXPECT_EQ(find("Qwen/Qwen3-0.6B"), only) << main;
  }
  make(hub_ + "snapshots/def");  // which of the two?
  test::expect_error(ErrorKind::kConfig,
                     "models--Qwen--Qwen3-0.6B (2 snapshots and no refs/main: give one of them as folder)",
                     [&] { find("Qwen/Qwen3-0.6B"); });
}

// An interrupted download is not what was asked for, and hides nothing.
TEST_F(FindModel, OneThatIsNotWhole) {
  fs::create_directories(folder_ / (hub_ + "snapshots/abc"));
  folder_.write(hub_ + "refs/main", "abc");
  test::expect_error(ErrorKind::kConfig, "models--Qwen--Qwen3-0.6B (not downloaded whole), ",
                     [&] { find("Qwen/Qwen3-0.6B"); });
  const fs::path other = make(".cache/modelscope/hub/Qwen/Qwen3-0___6B");
  EXPECT_EQ(find("Qwen/Qwen3-0.6B"), other);
  folder_.write(hub_ + "snapshots/abc/tokenizer.json", "{}");  // enough to tokenize
  EXPECT_EQ(find("Qwen/Qwen3-0.6B"), folder_ / (hub_ + "snapshots/abc"));
}

TEST_F(FindModel, ModelScopeWritesDotsAsUnderscores) {
  for (const char* path :
       {".cache/modelscope/hub/Qwen/Qwen3-0___6B", ".cache/modelscope/hub/models/Qwen/Qwen3-0___6B"}) {
    const fs::path folder = make(path);
    EXPECT_EQ(find("Qwen/Qwen3-0.6B"), folder);
  }
  const fs::path snapshot = make(hub_ + "snapshots/abc");  // Hugging Face's goes first
  EXPECT_EQ(find("Qwen/Qwen3-0.6B"), snapshot);
}

TEST_F(FindModel, WhatWasTriedIsSaid) {
  const std::string home = folder_.path().string();
  test::expect_error(
      ErrorKind::kConfig,
      "Qwen/Qwen3-0.6B: no such folder, and no model of that name in the caches of this machine: " + home +
          "/" + hub_.substr(0, hub_.size() - 1) + " (not there), " + home +
          "/.cache/modelscope/hub/models/Qwen/Qwen3-0___6B (not there), " + home +
          "/.cache/modelscope/hub/Qwen/Qwen3-0___6B (not there), ",
      [&] { find("Qwen/Qwen3-0.6B"); });
  test::expect_error(ErrorKind::kConfig, "in the caches of this machine: HOME is not set; want",
                     [&] { find_model("Qwen/Qwen3-0.6B", caches_with({})); });
}

}  // namespace
}  // namespace nanovllm::cli
