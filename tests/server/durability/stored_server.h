// SPDX-License-Identifier: MIT
// An engine over a toy decoder with a store of sessions, and what is left of it when
// the process is killed or power fails.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/patience.h"
#include "tests/fakes/unsynced_file_system.h"
#include "tests/server/engine/await_answer.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/store/store_fixture.h"

namespace mnemon {

// The store first, so that it outlives the engine.
struct StoredServer {
  StoredServer(const std::string& directory, ToyState state,
               Engine::Options options = {}, int64_t append_capacity = 4096)
      : path(directory), files(std::make_shared<UnsyncedFileSystem>()) {
    AdoptStore(*files, path);
    auto opened = OpenSessionStoreOn(files, path, {.memory_bytes = 4 << 20});
    EXPECT_TRUE(opened.ok()) << opened.status();
    store = *std::move(opened);
    options.store = store.get();
    server = std::make_unique<ToyServer>(state, options, append_capacity);
  }

  Engine& engine() { return *server->engine; }

  // Copies what a killed process would leave now.
  void CopyAfterKill(const std::string& to) const {
    namespace fs = std::filesystem;
    // The store's threads continue: a file may vanish while the folder is copied.
    std::error_code vanished;
    for (int tries = 0; tries < 100; ++tries) {
      fs::copy(path, to, fs::copy_options::recursive, vanished);
      if (!vanished) return;
      fs::remove_all(to);
    }
    FAIL() << vanished.message();
  }
  void CopyAfterPowerFailure(const std::string& to) const {
    CopyStoreAfterPowerFailure(*files, path, PowerFailure::kDropsAll, to);
  }

  void CreateSession(const std::string& id, Durability durability) {
    SessionSettings settings;
    settings.durability = durability;
    const auto made = engine().CreateSession({.id = id, .settings = settings});
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_EQ(made->durability, durability);
  }

  const std::string path;
  const std::shared_ptr<UnsyncedFileSystem> files;
  std::unique_ptr<SessionStore> store;
  std::unique_ptr<ToyServer> server;
};

inline absl::StatusOr<SessionFacts> ForkSession(Engine& engine,
                                                const ForkSessionRequest& request) {
  return AwaitAnswer<SessionFacts>(
      [&](auto done) { return engine.ForkSession(request, std::move(done)); });
}

inline absl::StatusOr<SessionFacts> RewindSession(Engine& engine,
                                                  const RewindSessionRequest& request) {
  return AwaitAnswer<SessionFacts>(
      [&](auto done) { return engine.RewindSession(request, std::move(done)); });
}

inline absl::StatusOr<CheckpointFacts> CheckpointSession(
    Engine& engine, const CheckpointSessionRequest& request) {
  return AwaitAnswer<CheckpointFacts>(
      [&](auto done) { return engine.CheckpointSession(request, std::move(done)); });
}

inline absl::Status StatusOf(const Outcome& outcome) { return outcome.status; }
template <class T>
absl::Status StatusOf(const absl::StatusOr<T>& answer) {
  return answer.status();
}

// Result of `ask`, retried while it is refused for lack of memory: such a refusal
// allows a retry.
template <class Ask>
auto Insist(const Ask& ask) {
  auto answer = ask();
  Eventually([&] {
    const absl::Status status = StatusOf(answer);
    const std::string reason = ReasonOf(status);
    if (reason != "MEMORY_LIMIT" && reason != "NO_FREE_BLOCKS") return true;
    EXPECT_TRUE(GetErrorDetail(status)->retry_after) << status;
    answer = ask();
    return false;
  });
  return answer;
}

// The history of a session, by its snapshot.
std::vector<int32_t> HistoryOf(Engine& engine, const std::string& session);

}  // namespace mnemon
