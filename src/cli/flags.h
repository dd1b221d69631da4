// What several commands take: the engine's options, sampling, chats, a model's name.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cli/chat_flags.h"
#include "cli/sampling_flags.h"
#include "llm/config.h"

namespace nanovllm::cli {

// → the option of the model
CLI::Option* add_engine_flags(CLI::App& app, EngineConfig& config);

// Every option of EngineConfig but those named in `without`. prefix: "against-" makes --against-num-threads.
// → the options
std::vector<CLI::Option*> add_engine_options(CLI::App& app, EngineConfig& config, const std::string& prefix,
                                             const char* group,
                                             std::span<const std::string_view> without = {});

void add_sampling_flags(CLI::App& app, SamplingFlags& flags);

// when: in front of each help text. → the options
std::vector<CLI::Option*> add_chat_flags(CLI::App& app, ChatFlags& flags, const std::string& when);

// A folder's or a file's name, "MODEL" or "FILE" in --help.
CLI::Option* add_model(CLI::App& app, std::filesystem::path& model);

// For an unsigned option: CLI11 would take a negative number modulo 2^64.
CLI::Validator no_sign();

// From what was typed, which is returned, to where it lies. throws Error
std::string resolve_model(std::filesystem::path& model);

// CLI11 takes "[a, b]" apart as a list, but a prompt is a prompt: protected_arguments() puts a mark in front of
// such arguments, in the reverse order that CLI::App::parse wants, and unprotect() takes it away again.
std::vector<std::string> protected_arguments(int argc, char** argv);
void unprotect(std::string& text);
void unprotect(std::filesystem::path& path);
template <class... Fields>
void unprotect_all(Fields&... fields) {
  (unprotect(fields), ...);
}

}  // namespace nanovllm::cli
