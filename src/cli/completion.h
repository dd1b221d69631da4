// Completion for bash, made from the commands and options that there are.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace nanovllm::cli {

// A script to source. It completes commands, options and the words an option wants one of; everything else as file names.
std::string bash_completion(const CLI::App& program);

}  // namespace nanovllm::cli
