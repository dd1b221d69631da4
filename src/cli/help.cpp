#include "cli/help.h"

#include <algorithm>
#include <sstream>

namespace nanovllm::cli {
namespace {

constexpr size_t kColumns = 80, kTextColumn = 30;

// Words of `text` from column `indent` on, in as many lines as it takes; the first line begins behind `line`.
std::string wrapped(std::string line, const std::string& text, size_t indent) {
  std::string result;
  if (line.size() + 2 > indent && indent > 0) {
    result = line + "\n";
    line.clear();
  }
  line.resize(indent, ' ');
  std::istringstream words(text);
  bool at_begin = true;
  for (std::string word; words >> word; at_begin = false) {
    if (!at_begin && line.size() + 1 + word.size() > kColumns) {
      result += line + "\n";
      line.assign(indent, ' ');
      at_begin = true;
    }
    line += (at_begin ? "" : " ") + word;
  }
  return result + line + "\n";
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string positional_name(const CLI::Option& option) {
  std::string name = option.get_name(true);
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  if (option.get_expected_max() > 1) name += "...";
  return option.get_required() ? name : "[" + name + "]";
}

// " FILE=-", " {text,jsonl}=text"
std::string value_name(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return "";
  const std::vector<std::string> choices = option_choices(option);
  std::string type = option.get_type_name();
  if (type == "UINT") type = "INT";
  if (!choices.empty()) type = "{" + joined(choices, ",") + "}";
  if (!option.get_default_str().empty()) type += "=" + option.get_default_str();
  return " " + type;
}

std::vector<const CLI::Option*> positionals(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::string usage(const CLI::App& app) {
  std::string line = "usage: " + full_name(app);
  if (!command_names(app).empty()) line += " COMMAND";
  for (const CLI::Option* option : positionals(app)) line += " " + positional_name(*option);
  return line + " [OPTIONS]\n";
}

// The app that the command line came to.
const CLI::App& parsed_app(const CLI::App& program) {
  const CLI::App* app = &program;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

std::vector<std::string> all_option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options({}))
    for (const std::string& name : option_names(*option)) names.push_back(name);
  return names;
}

std::string with_suggestion(const std::string& message, const std::string& suggestion) {
  return suggestion.empty() ? message : message + ", did you mean " + suggestion + "?";
}

}  // namespace

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> option_choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();  // TEXT:{auto,text,jsonl}
  const size_t begin = type.find('{'), end = type.find('}');
  std::vector<std::string> choices;
  if (begin == type.npos || end == type.npos) return choices;
  std::istringstream words(type.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  std::string text = wrapped("", full_name(*app) + ": " + app->get_description(), 0) + usage(*app);
  if (!app->get_subcommands({}).empty()) text += "\nCommands:\n";
  for (const CLI::App* command : app->get_subcommands({}))
    text += wrapped("  " + command->get_name(), command->get_description(), kTextColumn / 2);
  if (!positionals(*app).empty()) text += "\n";
  for (const CLI::Option* option : positionals(*app))
    text += wrapped("  " + positional_name(*option), option->get_description(), kTextColumn);
  for (const std::string& group : app->get_groups()) {
    std::string lines;
    for (const CLI::Option* option : app->get_options({}))
      if (option->get_group() == group && option->nonpositional())
        lines += wrapped("  " + joined(option_names(*option), ", ") + value_name(*option),
                         option->get_description(), kTextColumn);
    if (!lines.empty()) text += "\n" + wrapped("", group + ":", 0) + lines;
  }
  if (!app->get_footer().empty()) text += "\n" + app->get_footer() + "\n";
  return text;
}

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  for (const std::string& name : names)  // a beginning that only one has, or -json for --json
    if (word.size() > 1 && (name.starts_with(word) || name.starts_with("-" + word))) {
      if (!best.empty() && best != name) return "";
      best = name;
    }
  if (!best.empty()) return best;
  size_t best_distance = 1 + std::max<size_t>(1, word.size() / 4);  // farther is not close
  for (const std::string& name : names) {
    std::vector<std::vector<size_t>> d(word.size() + 1, std::vector<size_t>(name.size() + 1));
    for (size_t i = 0; i <= word.size(); ++i)
      for (size_t j = 0; j <= name.size(); ++j) {
        if (i == 0 || j == 0) {
          d[i][j] = i + j;
          continue;
        }
        d[i][j] =
            std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (word[i - 1] != name[j - 1])});
        if (i > 1 && j > 1 && word[i - 1] == name[j - 2] && word[i - 2] == name[j - 1])
          d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    if (d[word.size()][name.size()] < best_distance) {
      best_distance = d[word.size()][name.size()];
      best = name;
    }
  }
  return best;
}

std::string describe_usage_error(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App& app = parsed_app(program);
  const std::vector<std::string> commands = command_names(app), unknown = app.remaining();
  std::string message = error.what();
  const auto option = std::find_if(unknown.begin(), unknown.end(), [](const auto& word) {
    return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9');
  });
  if (option != unknown.end()) {
    const std::string name = option->substr(0, option->find('='));
    message = with_suggestion("unknown option " + name, nearest(name, all_option_names(app)));
  } else if (!unknown.empty() && !commands.empty()) {
    message = with_suggestion("unknown command " + unknown[0], nearest(unknown[0], commands));
  } else if (!commands.empty()) {
    message = "want a command: " + joined(commands, ", ");
  }
  return full_name(app) + ": " + message + "\n" + full_name(app) + " --help shows what there is\n";
}

}  // namespace nanovllm::cli
