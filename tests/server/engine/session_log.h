// SPDX-License-Identifier: MIT
// Log of one session used by many threads, for a later check by one thread that
// recomputes everything.
//
// Changes of a session's history are serialised: the caller holds `turn`. Everything
// else happens at any time: a look at the session notes between which changes it was
// made, and must have seen the history as one of them left it, or a running call at a
// token of it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/sampling/sampler.h"

namespace mnemon {

using History = std::vector<int32_t>;

// A look at a history, as one thread saw it.
struct Look {
  size_t first = 0, last = 0;  // changes ended before it, begun when it was over
  int64_t position = 0;        // tokens seen
  bool part = false;           // a prefix of a history
  std::string snapshot;        // empty: only counted
};

struct Change {
  enum class Kind { kGenerate, kRewind, kRestore };
  Kind kind = Kind::kGenerate;
  // kGenerate: a call, and what it delivered; `stays`: prompt and tokens stayed in the
  // history.
  History prompt, tokens;
  SamplingParams sampling;
  int64_t asked = 0;   // tokens
  bool whole = false;  // it ended with OK: all that was asked for
  bool stays = false;
  std::optional<int64_t> first_index;  // of the prompt, where the call said so
  int64_t target = 0;                  // kRewind: tokens that stay
  // kRestore: a checkpoint, and the session after it.
  std::string checkpoint;
  std::string snapshot;
};

class SessionLog {
 public:
  SessionLog(std::string id, History begin)
      : id(std::move(id)),
        begin(std::move(begin)),
        size_(static_cast<int64_t>(this->begin.size())) {}

  const std::string id;
  const History begin;

  std::mutex turn;  // guards `alive` and `sampling`
  bool alive = true;
  SamplingParams sampling;

  // Called around every change. REQUIRES: turn.
  void BeginChange() {
    std::lock_guard lock(mutex_);
    ++begun_;
  }
  // `size`: size of the history then.
  void EndChange(Change change, int64_t size) {
    std::lock_guard lock(mutex_);
    changes_.push_back(std::move(change));
    size_ = size;
  }
  // Size of the history. REQUIRES: turn.
  int64_t size() const {
    std::lock_guard lock(mutex_);
    return size_;
  }

  // Called around everything that looks at the session.
  Look BeginLook() const {
    std::lock_guard lock(mutex_);
    return {.first = changes_.size()};
  }
  void EndLook(Look& look, int64_t position) const {
    std::lock_guard lock(mutex_);
    look.last = begun_;
    look.position = position;
  }
  void Keep(Look look) {
    std::lock_guard lock(mutex_);
    looks_.push_back(std::move(look));
  }
  void AddCheckpoint(std::string checkpoint, Look look) {
    std::lock_guard lock(mutex_);
    checkpoints_.emplace_back(std::move(checkpoint), std::move(look));
  }

  // For the check, when all threads have ended; names may be copied at any time.
  const std::vector<Change>& changes() const { return changes_; }
  const std::vector<Look>& looks() const { return looks_; }
  std::vector<std::pair<std::string, Look>> checkpoints() const {
    std::lock_guard lock(mutex_);
    return checkpoints_;
  }

 private:
  mutable std::mutex mutex_;  // guards all below
  size_t begun_ = 0;
  std::vector<Change> changes_;
  int64_t size_ = 0;
  std::vector<Look> looks_;
  std::vector<std::pair<std::string, Look>> checkpoints_;
};

}  // namespace mnemon
