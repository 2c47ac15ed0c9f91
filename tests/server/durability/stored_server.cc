// SPDX-License-Identifier: MIT
#include "tests/server/durability/stored_server.h"

#include "server/snapshots/snapshot.h"

namespace mnemon {

std::vector<int32_t> HistoryOf(Engine& engine, const std::string& session) {
  const auto exported = Insist([&] {
    return AwaitAnswer<ExportedSession>(
        [&](auto done) { return engine.ExportSession(session, std::move(done)); });
  });
  EXPECT_TRUE(exported.ok()) << exported.status();
  if (!exported.ok()) return {};
  const auto snapshot = DecodeSnapshot(
      exported->snapshot, {.tokens = 1 << 20, .state_bytes = int64_t{1} << 40});
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
  return snapshot.ok() ? snapshot->tokens : std::vector<int32_t>();
}

}  // namespace mnemon
