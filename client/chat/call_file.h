// SPDX-License-Identifier: MIT
// Files that keep the request ids of the newest calls of chats, so that a chat can take
// over the answer of one that was killed.
#pragma once

#include <string>

namespace mnemon::client {

// Folder for program state: below $XDG_STATE_HOME, else ~/.local/state; "" if there is
// neither.
std::string StateFolder();

// At most 256 small files in `folder`, readable only by their owner. Sessions whose
// names share a hash of 8 bits share a file; the newest call wins. An empty `folder`:
// nothing is kept. Failures to read or write a file are ignored.
class CallFiles {
 public:
  CallFiles(std::string folder, std::string server);

  void Remember(const std::string& session, const std::string& request_id) const;
  // "" if unknown.
  std::string Recall(const std::string& session) const;

 private:
  std::string KeyOf(const std::string& session) const;
  std::string PathOf(const std::string& key) const;

  const std::string folder_;
  const std::string server_;
};

}  // namespace mnemon::client
