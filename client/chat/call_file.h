// SPDX-License-Identifier: MIT
// Where chats keep the request ids of their newest calls, so that a chat can take over
// the answer of one that was killed.
#pragma once

#include <string>

namespace mnemon::client {

// Where programs keep such things: below $XDG_STATE_HOME, else ~/.local/state; "" where
// there is neither.
std::string StateFolder();

// At most 256 small files in `folder`, which only its owner may read; sessions whose
// names share a hash of 8 bits share a file, and the newest call of all counts. An
// empty `folder`: nothing is kept. That a file cannot be read or written is no error.
class CallFiles {
 public:
  CallFiles(std::string folder, std::string server);

  void Remember(const std::string& session, const std::string& request_id) const;
  // "" where it is not known.
  std::string Recall(const std::string& session) const;

 private:
  std::string KeyOf(const std::string& session) const;
  std::string PathOf(const std::string& key) const;

  const std::string folder_;
  const std::string server_;
};

}  // namespace mnemon::client
