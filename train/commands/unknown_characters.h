// SPDX-License-Identifier: MIT
// --unknown-characters of commands that encode a text.
#pragma once

#include <string>

#include "base/command_line.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// `name` must outlive Run.
void AddUnknownCharactersFlag(Command& command, std::string& name);

// Of the name that the flag gives; kAsModel where it was not given.
UnknownCharacters UnknownCharactersOf(const std::string& name);

}  // namespace mnemon
