// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace mnemon {

// A bash script that completes the commands, flags and named values of `root`, and file
// names as the values of all other flags.
std::string BashCompletion(const CLI::App& root);

}  // namespace mnemon
