// SPDX-License-Identifier: MIT
// A reader of lines that a second descriptor can stop.
#pragma once

#include <optional>
#include <string>

namespace mnemon::client {

// Reads lines from a descriptor until it ends or another descriptor becomes readable.
// Used by one thread.
class LineReader {
 public:
  LineReader(int input, int stop) : input_(input), stop_(stop) {}

  // The next line without its end; nullopt at the end. Lines are cut at 4 MiB.
  std::optional<std::string> Next();

 private:
  bool Fill();

  const int input_;
  const int stop_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace mnemon::client
