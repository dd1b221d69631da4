// The program: reads the command line and runs one of its commands (commands.cpp).
#include <iostream>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output.h"

namespace nanovllm::cli {
namespace {

constexpr int kUsageError = 2;

int run(int argc, char** argv) {
  CLI::App program("a small, fast engine for Qwen-class language models", "nanovllm");
  program.formatter(std::make_shared<HelpFormatter>());
  program.get_help_ptr()->description("print this and exit");
  program.require_subcommand(1);
  program.set_version_flag("--version", NANOVLLM_VERSION, "print the version and exit");
  program.footer(R"(Examples:
  nanovllm chat models/demo
  nanovllm generate models/demo "Once upon a time"
  nanovllm inspect models/demo
  nanovllm generate --help)");
  const std::vector<Command> commands = add_commands(program);
  try {
    program.parse(protected_arguments(argc, argv));
    for (const Command& command : commands)
      if (command.app->parsed()) return command.run();
  } catch (const CLI::Success& help_or_version) {
    return program.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    std::cerr << describe_usage_error(program, error);
  }
  return kUsageError;
}

}  // namespace
}  // namespace nanovllm::cli

int main(int argc, char** argv) {
  try {
    const int code = nanovllm::cli::run(argc, argv);
    nanovllm::cli::check_printed();
    return code;
  } catch (const nanovllm::Error& error) {
    std::cerr << "nanovllm: error: " << error.what() << "\n";
  } catch (const std::bad_alloc&) {
    std::cerr << "nanovllm: error: out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << "nanovllm: error: " << error.what() << "\n";
  }
  return 1;
}
