// SPDX-License-Identifier: MIT
// An editor of lines on the terminal, with a history that is kept in a file.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace mnemon::client {

// Where the history of chats is kept: below $XDG_STATE_HOME, else ~/.local/state; ""
// where there is neither.
std::string ChatHistoryFile();

// Reads standard input and draws on standard output, both a terminal; in between the
// terminal is as it was. Sets LC_CTYPE of the process, so create it before other
// threads run. At most one; used by one thread.
class LineEditor {
 public:
  // Once `stop` is readable, no line is waited for. `history_file`: "" = none; at the
  // end the lines of this editor are added to it, and the newest 1000 kept. It is
  // readable by its owner alone. That it cannot be read or written is not an error.
  static std::unique_ptr<LineEditor> Create(int stop, std::string history_file);
  virtual ~LineEditor() = default;

  // The next line without its end; nullopt at the end of the input, or when `stop` is
  // readable.
  virtual std::optional<std::string> Next(const std::string& prompt) = 0;
};

}  // namespace mnemon::client
