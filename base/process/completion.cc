// SPDX-License-Identifier: MIT
#include "base/process/completion.h"

#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace mnemon {
namespace {

// The branches of the script's three case statements. A command is written as its words
// after the binary's name, each preceded by a space: " sessions list".
struct Branches {
  std::string commands;
  std::string values;
  std::string words;
};

// Values of the flag, "a b" for a type written as "TEXT:{a,b}"; empty: anything.
std::string Choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return "";
  return absl::StrReplaceAll(type.substr(open + 1, close - open - 1), {{",", " "}});
}

// A loop, because zsh has no mapfile.
std::string Compgen(const std::string& kind) {
  return absl::StrCat(
      "while IFS= read -r word; do COMPREPLY+=(\"$word\"); done < <(compgen ", kind,
      " -- \"$cur\")");
}

std::vector<const CLI::App*> Subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

void AddCommand(const CLI::App& app, const std::string& command, Branches& out) {
  std::vector<std::string> words;
  for (const CLI::App* sub : Subcommands(app)) {
    words.push_back(sub->get_name());
    const std::string name = absl::StrCat(command, " ", sub->get_name());
    absl::StrAppend(&out.commands, "      '", name, "') command='", name, "' ;;\n");
    AddCommand(*sub, name, out);
  }
  for (const CLI::Option* option : app.get_options()) {
    std::vector<std::string> patterns;
    for (const std::string& flag : option->get_lnames()) {
      words.push_back("--" + flag);
      patterns.push_back(absl::StrCat("'", command, " --", flag, "'"));
    }
    if (patterns.empty() || option->get_items_expected_max() == 0) continue;
    const std::string choices = Choices(*option);
    absl::StrAppend(&out.values, "    ", absl::StrJoin(patterns, " | "), ")\n      ",
                    Compgen(choices.empty() ? "-f" : "-W '" + choices + "'"),
                    "\n      return\n      ;;\n");
  }
  absl::StrAppend(&out.words, "    '", command, "') words='", absl::StrJoin(words, " "),
                  "' ;;\n");
}

// Quoted with single quotes for fish.
std::string FishQuoted(const std::string& text) {
  return absl::StrCat(
      "'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}, {"\n", " "}}), "'");
}

// `complete`: prefix of all lines for this binary; `commands` collects the quoted names
// of all commands.
void AddFishLines(const CLI::App& app, const std::string& command,
                  const std::string& complete, std::string& commands,
                  std::string& lines) {
  const std::string here = absl::StrCat(complete, "'", command, "'\"");
  for (const CLI::App* sub : Subcommands(app)) {
    const std::string name = absl::StrCat(command, " ", sub->get_name());
    absl::StrAppend(&commands, " '", name, "'");
    absl::StrAppend(&lines, here, " -f -a ", sub->get_name(), " -d ",
                    FishQuoted(sub->get_description()), "\n");
    AddFishLines(*sub, name, complete, commands, lines);
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;
    absl::StrAppend(&lines, here);
    for (const std::string& flag : option->get_lnames()) {
      absl::StrAppend(&lines, " -l ", flag);
    }
    for (const std::string& letter : option->get_snames()) {
      absl::StrAppend(&lines, " -s ", letter);
    }
    const std::string choices = Choices(*option);
    if (!choices.empty()) {
      absl::StrAppend(&lines, " -x -a ", FishQuoted(choices));
    } else if (option->get_items_expected_max() > 0) {
      absl::StrAppend(&lines, " -r");
    }
    absl::StrAppend(&lines, " -d ", FishQuoted(option->get_description()), "\n");
  }
}

}  // namespace

std::string BashCompletion(const CLI::App& root) {
  Branches branches;
  AddCommand(root, "", branches);
  const std::string function = "_" + absl::StrReplaceAll(root.get_name(), {{"-", "_"}});
  std::string script = absl::StrCat(
      "# Completes ", root.get_name(),
      " in bash and zsh. Written by: ", root.get_name(), " --bash-completion\n",
      "if [[ -n ${ZSH_VERSION-} ]]; then\n"
      "  whence compdef > /dev/null || { autoload -Uz compinit && compinit; }\n"
      "  autoload -Uz bashcompinit && bashcompinit\n"
      "fi\n",
      function, "() {\n",
      "  local cur=${COMP_WORDS[COMP_CWORD]} command='' words='' word i\n"
      "  COMPREPLY=()\n");
  if (!branches.commands.empty()) {
    absl::StrAppend(&script, "  for ((i = 1; i < COMP_CWORD; i++)); do\n",
                    "    case \"$command ${COMP_WORDS[i]}\" in\n", branches.commands,
                    "    esac\n  done\n");
  }
  absl::StrAppend(&script, "  case \"$command ${COMP_WORDS[COMP_CWORD - 1]}\" in\n",
                  branches.values, "  esac\n  case $command in\n", branches.words,
                  "  esac\n  ", Compgen("-W \"$words\""), "\n}\n",
                  "complete -o bashdefault -o default -F ", function, " ",
                  root.get_name(), "\n");
  return script;
}

std::string FishCompletion(const CLI::App& root) {
  const std::string name = root.get_name();
  const std::string function =
      absl::StrCat("__", absl::StrReplaceAll(name, {{"-", "_"}}), "_at");
  std::string commands, lines;
  AddFishLines(root, "", absl::StrCat("complete -c ", name, " -n \"", function, " "),
               commands, lines);
  return absl::StrCat(
      "# Completes ", name, " in fish. Written by: ", name, " --fish-completion\n",
      "function ", function, " -d 'Whether what is typed is this command'\n",
      "  set -l command ''\n", "  for word in (commandline -opc)[2..-1]\n",
      "    if contains -- \"$command $word\"", commands, "\n",
      "      set command \"$command $word\"\n    end\n  end\n",
      "  test \"$command\" = \"$argv[1]\"\nend\n", lines);
}

}  // namespace mnemon
