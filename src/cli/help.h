// --help in 80 columns, and what a mistyped command line is told.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace nanovllm::cli {

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override;
};

// "nanovllm bench latency"
std::string full_name(const CLI::App& app);

// Commands below the app: "throughput", "latency".
std::vector<std::string> command_names(const CLI::App& app);
// What an option is called: "-h", "--help"; "--prefix-caching", "--no-prefix-caching". A positional has no such name.
std::vector<std::string> option_names(const CLI::Option& option);
// The words that it wants one of; none: any.
std::vector<std::string> option_choices(const CLI::Option& option);

// One line with where and what, and for an unknown word the nearest one that there is; one line on where help is.
std::string describe_usage_error(const CLI::App& program, const CLI::ParseError& error);

// The only name that begins with the word, or the one that differs least from it; empty if none is close. By optimal string alignment: letters that are missing, too
// many, others, or two that changed places.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

}  // namespace nanovllm::cli
