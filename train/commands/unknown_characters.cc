// SPDX-License-Identifier: MIT
#include "train/commands/unknown_characters.h"

#include <vector>

namespace mnemon {
namespace {

// Values of the flag.
constexpr UnknownCharacters kChoices[] = {
    UnknownCharacters::kRefuse, UnknownCharacters::kSkip, UnknownCharacters::kReplace};

}  // namespace

void AddUnknownCharactersFlag(Command& command, std::string& name) {
  std::vector<std::string> names;
  for (const UnknownCharacters choice : kChoices) names.emplace_back(Name(choice));
  command
      .Add(
          "--unknown-characters", &name,
          "What becomes of characters that a tokenizer of characters lacks: refuse, "
          "skip (leave out), replace (by the first of U+FFFD, ? and space that it has)")
      .OneOf(std::move(names))
      .Default("as its tokenizer.json says, else refuse");
}

UnknownCharacters UnknownCharactersOf(const std::string& name) {
  for (const UnknownCharacters choice : kChoices) {
    if (name == Name(choice)) return choice;
  }
  return UnknownCharacters::kAsModel;
}

}  // namespace mnemon
