// SPDX-License-Identifier: MIT
// Facts of sessions that often have a value in common, for tests of filters and orders.
#pragma once

#include <chrono>
#include <random>
#include <string>

#include "base/strings.h"
#include "server/requests/request.h"

namespace mnemon {

inline std::chrono::system_clock::time_point SecondsAfter1970(int64_t seconds) {
  return std::chrono::system_clock::time_point(std::chrono::seconds(seconds));
}

inline SessionFacts RandomFacts(std::string id, std::mt19937& random) {
  const auto below = [&](int end) { return static_cast<int>(random() % end); };
  SessionFacts facts;
  facts.id = std::move(id);
  facts.model = below(2) ? "a" : "ab";
  facts.state = static_cast<SessionState>(below(4));
  facts.position = below(4);
  facts.state_size_bytes = below(2) * (int64_t{1} << 40);
  facts.create_time = SecondsAfter1970(below(3));
  facts.last_use_time = SecondsAfter1970(below(5) - 2);
  if (below(2)) facts.expire_time = SecondsAfter1970(below(3));
  if (below(2)) facts.parent = StrCat("s", below(3));
  facts.rebuilt = below(2);
  facts.paused = below(2);
  facts.durability = static_cast<Durability>(below(3));
  facts.tier = static_cast<SessionTier>(below(3));
  facts.model_id = std::string(64, below(2) ? '0' : 'f');
  facts.numerics_id = below(2) ? "fp32 1" : "bf16 \"2\"";
  return facts;
}

}  // namespace mnemon
