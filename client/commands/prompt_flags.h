// SPDX-License-Identifier: MIT
// Flags for the prompt of a command: text, token ids or a text file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/process/command_line.h"
#include "client/generate_options.h"

namespace mnemon::client {

struct PromptFlags {
  std::string text;
  std::vector<int32_t> tokens;
  std::string file;
  std::string unknown;  // refuse, skip or replace; empty: the model's setting
};

// Adds --prompt, --prompt-tokens and --text, which exclude each other, and
// --unknown-characters. `use` ends the help texts: "to continue".
void AddPromptFlags(Command command, PromptFlags& flags, const std::string& use);
// Reads the file, if there is one, into `flags.text`; INVALID_ARGUMENT if it exceeds
// `max_bytes`.
absl::Status ReadPromptFile(PromptFlags& flags, size_t max_bytes);
UnknownCharacters UnknownOf(const PromptFlags& flags);

}  // namespace mnemon::client
