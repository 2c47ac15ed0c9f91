// SPDX-License-Identifier: MIT
// Completion scripts for shells.
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace mnemon {

// A script for bash and zsh that completes the commands, flags and named values of
// `root`, and file names as the values of all other flags.
std::string BashCompletion(const CLI::App& root);

// The same for fish, with descriptions.
std::string FishCompletion(const CLI::App& root);

}  // namespace mnemon
