// SPDX-License-Identifier: MIT
// The commands of mnemon-train as a user runs them, in this process.
#pragma once

#include <string>
#include <vector>

namespace mnemon {

struct Ran {
  int code;
  std::string out;
  std::string err;
};

// `arguments`: without the program's name.
Ran RunTool(std::vector<std::string> arguments);

}  // namespace mnemon
