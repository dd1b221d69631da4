// The commands: flags, help, examples, and what runs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

namespace nanovllm::cli {

struct Command {
  CLI::App* app;
  std::function<int()> run;  // the exit code. throws Error; CLI::ParseError: flags that do not go together
};

// Those that have no commands below them. Their options live as long as they do.
std::vector<Command> add_commands(CLI::App& program);

}  // namespace nanovllm::cli
