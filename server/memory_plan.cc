// SPDX-License-Identifier: MIT
#include "server/memory_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/process/control_groups.h"
#include "base/strings.h"
#include "model/state/state_image.h"
#include "server/durability/stored_journal.h"
#include "server/residency/runner_arena.h"
#include "server/sessions/session.h"

namespace mnemon {

// Length of history for which the sizes of growing states are reported.
constexpr int64_t kUsualTokens = 1000;

int64_t DefaultMemory() { return UsableMemory() / 5 * 4; }

int64_t TransportBytes(int64_t memory) {
  return std::clamp(memory / 8, int64_t{64} << 20, int64_t{512} << 20);
}

absl::StatusOr<int64_t> EngineBytes(int64_t memory, int64_t weights, int64_t session) {
  const int64_t left = memory - weights - TransportBytes(memory) - kProcessBytes;
  if (left >= session) return left;
  const int64_t rest = weights + session + kProcessBytes;
  const int64_t transport = TransportBytes(rest / 7 * 8);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      StrCat("--memory is ", memory, " bytes; the weights take ", weights,
             ", one full session ", session, ", messages and the program itself ",
             transport + kProcessBytes, ": at least ", rest + transport, " are needed"),
      {.reason = "MEMORY", .field = "memory"});
}

SessionTiers PlanTiers(const StateSpec& spec, int64_t vocab,
                       std::optional<int64_t> context, const EngineOptions& options,
                       int64_t engine_bytes, bool state_on_host) {
  SessionTiers tiers{.running = options.running, .at_rest = {}};
  const MemoryShares shares = MemoryShares::Of(engine_bytes, options.call_bytes);
  std::vector<int64_t> lengths = {kUsualTokens};
  if (context && *context <= kUsualTokens) lengths = {*context};
  if (spec.growing() && context && *context > kUsualTokens) lengths.push_back(*context);
  for (const int64_t tokens : lengths) {
    // At rest the last token is not computed.
    const int64_t rows = tokens - 1 - StateImage::FirstRow(spec, tokens - 1);
    const int64_t block = kBlockPositions;
    // The rows of a ring may begin within a block.
    const int64_t blocks =
        spec.growing() ? (rows + block - 1) / block + (rows < tokens - 1 ? 1 : 0) : 0;
    const int64_t history =
        TokenHistory::BytesOf(tokens, TokenHistory::WidthFor(vocab));
    SessionTiers::AtRest at{.tokens = tokens,
                            .state_bytes = spec.bytes_at(0) + blocks * BlockBytes(spec),
                            .session_bytes = Session::kBytes + history,
                            .sessions = 0,
                            .in_host = 0};
    const int64_t in_memory = at.session_bytes + (state_on_host ? at.state_bytes : 0);
    const int64_t most =
        std::min<int64_t>({options.sessions, shares.new_sessions / Session::kBytes,
                           shares.resting / at.session_bytes});
    at.sessions = std::min(
        {most, engine_bytes / in_memory, options.state_bytes / at.state_bytes});
    if (!state_on_host) {
      const int64_t left = engine_bytes - at.sessions * at.session_bytes;
      at.in_host =
          std::min(most - at.sessions, left / (at.session_bytes + at.state_bytes));
    }
    tiers.at_rest.push_back(at);
  }
  return tiers;
}

StoredTier PlanStore(const StateSpec& spec, std::optional<int64_t> context,
                     const EngineOptions& options, int64_t free_bytes) {
  StoredTier tier{.tokens = std::min(kUsualTokens, context.value_or(kUsualTokens))};
  const int64_t snapshot =
      StateImage::Floats(spec, tier.tokens - 1) * static_cast<int64_t>(sizeof(float)) +
      tier.tokens * static_cast<int64_t>(sizeof(int32_t));
  tier.session_bytes = static_cast<int64_t>(StoredJournal::kSnapshots) * snapshot;
  tier.sessions = std::min<int64_t>(options.sessions, free_bytes / tier.session_bytes);
  return tier;
}

}  // namespace mnemon
