// SPDX-License-Identifier: MIT
// Engines with so little memory that stored sessions sleep.
#pragma once

#include <chrono>
#include <string>

#include "base/strings.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {

inline constexpr int64_t kMiB = int64_t{1} << 20;

// Runs of blocks of each kind of entries, and some for the tokens of calls.
inline int64_t CallBytes(ToyState state) {
  const bool both =
      state == ToyState::kFixedAndRing || state == ToyState::kFixedAndAppend;
  return (both ? 4 : 2) * kMiB + kMiB / 4;
}

inline Engine::Options Narrow(ToyState state, int64_t resting) {
  return {.memory_bytes = CallBytes(state) + resting, .call_bytes = CallBytes(state)};
}

// Makes `count` sessions sleep by creating others that are then deleted.
inline void PutToSleep(Engine& engine, int64_t count = 1) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int made = 0;
  while (engine.Stats().asleep < count) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    SessionSettings settings;
    settings.durability = Durability::kNone;
    const std::string id = StrCat("filler", made);
    if (engine.CreateSession({.id = id, .settings = settings}).ok()) ++made;
  }
  ASSERT_EQ(engine.Stats().asleep, count);
  while (made-- > 0) {
    ASSERT_TRUE(engine.DeleteSession(StrCat("filler", made)).ok());
  }
  ASSERT_TRUE(AwaitMemory(engine, [](const MemoryStats& memory) {
    return memory.sessions < memory.sessions_limit / 2;
  }));
}

}  // namespace mnemon
