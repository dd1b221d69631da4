#include "cli/completion.h"

#include "cli/help.h"

namespace nanovllm::cli {
namespace {

void append(std::string& words, const std::vector<std::string>& more) {
  for (const std::string& word : more) words += (words.empty() ? "" : " ") + word;
}

// One branch of each case: the app's words, and the words that its options want.
void add_cases(const CLI::App& app, const std::string& name, std::string& words, std::string& values) {
  std::string names;
  append(names, command_names(app));
  for (const CLI::Option* option : app.get_options({})) {
    append(names, option_names(*option));
    std::string choices;
    append(choices, option_choices(*option));
    for (const std::string& option_name : option_names(*option))
      if (!choices.empty())
        values += "    \"" + name + " " + option_name + "\") words=\"" + choices + "\" ;;\n";
  }
  words += "    \"" + name + "\") words=\"" + names + "\" ;;\n";
  for (const CLI::App* command : app.get_subcommands({}))
    add_cases(*command, name + " " + command->get_name(), words, values);
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  std::string words, values;
  add_cases(program, program.get_name(), words, values);
  // A command is as many of the first words as name one; what follows it is its own.
  return R"(_nanovllm() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words="" i
  # bash gives --format=te as three words
  if [[ $word == "=" ]]; then word=""; elif [[ $previous == "=" ]]; then previous=${COMP_WORDS[COMP_CWORD - 2]}; fi
  local command=)" +
         program.get_name() + R"(
  for ((i = 1; i < COMP_CWORD; ++i)); do
    _nanovllm_words "$command"
    [[ ${COMP_WORDS[i]} != -* && " $words " == *" ${COMP_WORDS[i]} "* ]] || break
    command+=" ${COMP_WORDS[i]}"
  done
  _nanovllm_words "$command"
  case "$command $previous" in
)" + values +
         R"(    *) [[ $word == -* || $words != -* ]] || words="" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
_nanovllm_words() {
  case "$1" in
)" + words +
         R"(  esac
}
complete -o default -F _nanovllm )" +
         program.get_name() + "\n";
}

}  // namespace nanovllm::cli
