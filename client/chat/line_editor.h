// SPDX-License-Identifier: MIT
// A line editor for the terminal, with a history kept in a file.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace mnemon::client {

// File for the history of chats: below $XDG_STATE_HOME, else ~/.local/state; "" if
// there is neither.
std::string ChatHistoryFile();

// Reads standard input and draws on standard output, both a terminal, whose mode it
// restores between lines. Sets LC_CTYPE of the process, so create it before other
// threads run. At most one; used by one thread.
class LineEditor {
 public:
  // Does not wait for lines once `stop` is readable. `history_file`: "" = none; the
  // destructor adds the lines of this editor and keeps the newest 1000. Only its owner
  // can read the file. Failures to read or write it are ignored.
  static std::unique_ptr<LineEditor> Create(int stop, std::string history_file);
  virtual ~LineEditor() = default;

  // The next line without its end; nullopt at the end of the input, or if `stop` is
  // readable.
  virtual std::optional<std::string> Next(const std::string& prompt) = 0;
};

}  // namespace mnemon::client
