// SPDX-License-Identifier: MIT
// An engine whose store holds its commits, and calls that wait for it.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/held_store.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/await_answer.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {

// Calls under way, and the number of answers to each.
class Asked {
 public:
  // The function that answers the call named `name`.
  template <class Outcome>
  auto Begin(const std::string& name) {
    const size_t index = Add(name);
    return [this, index](Outcome) { Answered(index); };
  }
  size_t Add(const std::string& name) {
    std::lock_guard lock(mutex_);
    names_.push_back(name);
    answers_.push_back(0);
    return answers_.size() - 1;
  }
  void Answered(size_t index) {
    std::lock_guard lock(mutex_);
    ++answers_[index];
    changed_.notify_all();
  }
  void Wake() {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  bool answered(size_t index) const {
    std::lock_guard lock(mutex_);
    return answers_[index] > 0;
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return answers_.size();
  }
  // Returns false if that takes too long.
  bool Await(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      std::unique_lock lock(mutex_);
      if (std::chrono::steady_clock::now() > end) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    return true;
  }
  bool AwaitAll() {
    return Await([this] { return Unanswered().empty(); });
  }
  std::string Unanswered() const {
    std::lock_guard lock(mutex_);
    std::string names;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (answers_[i] == 0) names += names_[i] + " ";
    }
    return names;
  }
  std::string AnsweredTwice() const {
    std::lock_guard lock(mutex_);
    std::string names;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (answers_[i] > 1) names += names_[i] + " ";
    }
    return names;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> names_;
  std::vector<int> answers_;
};

// An engine with a durable session, "s", that has a turn and a checkpoint, "c".
struct Scene {
  explicit Scene(std::optional<std::chrono::seconds> ttl = std::nullopt) {
    options.store = &store;
    options.idle_timeout = std::chrono::seconds(5);
    server = std::make_unique<ToyServer>(ToyState::kFixedAndAppend, options);
    SessionSettings settings;
    settings.ttl = ttl;
    EXPECT_TRUE(engine().CreateSession({.id = "s", .settings = settings}).ok());
    EXPECT_TRUE(server->Run(Ask(Tokens(9, 1), 4, "s")).status.ok());
    EXPECT_TRUE(AwaitAnswer<CheckpointFacts>([&](auto done) {
                  return engine().CheckpointSession({.session = "s", .id = "c"}, done);
                }).ok());
    snapshot = AwaitAnswer<ExportedSession>([&](auto done) {
                 return engine().ExportSession("s", done);
               })->snapshot;
    EXPECT_TRUE(engine().SaveSessions(std::chrono::steady_clock::now() + kPatience));
    store.Hold();
  }
  ~Scene() {
    store.Open();
    server.reset();
    threads.clear();
  }

  Engine& engine() { return *server->engine; }
  // Waits until everything is written, as at the end of a server; another engine starts
  // with that.
  void Restart() {
    store.Open();
    EXPECT_TRUE(engine().SaveSessions(std::chrono::steady_clock::now() + kPatience));
    server.reset();
    server = std::make_unique<ToyServer>(ToyState::kFixedAndAppend, options);
  }
  // A returned error counts as an answer.
  void Told(size_t index, const absl::Status& begun) {
    if (!begun.ok()) asked.Answered(index);
  }
  template <class Outcome, class Method>
  void Call(const std::string& name, const Method& method) {
    const size_t index = asked.size();
    const auto done = asked.Begin<Outcome>(name);
    Told(index, method(done));
  }
  // Runs `work` to its end on a separate thread.
  void Follow(const std::string& name, std::function<void()> work) {
    const size_t index = asked.Add(name);
    threads.push_back(std::async(std::launch::async, [this, index, work] {
      work();
      asked.Answered(index);
    }));
  }

  HeldStore store;
  Engine::Options options;
  Asked asked;
  std::string snapshot;
  std::unique_ptr<ToyServer> server;
  std::vector<std::future<void>> threads;
};

}  // namespace mnemon
