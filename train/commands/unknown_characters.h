// SPDX-License-Identifier: MIT
// The flag --unknown-characters of commands that encode a text.
#pragma once

#include <string>

#include "base/process/command_line.h"
#include "model/text/tokenizer.h"

namespace mnemon {

// Adds the flag. `name` must outlive CommandLine::Run.
void AddUnknownCharactersFlag(Command& command, std::string& name);

// The value of the flag; kAsModel if it was not given.
UnknownCharacters UnknownCharactersOf(const std::string& name);

}  // namespace mnemon
