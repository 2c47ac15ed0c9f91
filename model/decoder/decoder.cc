// SPDX-License-Identifier: MIT
#include "model/decoder/decoder.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/kernels.h"
#include "model/state/state_image.h"

namespace mnemon {
namespace {

constexpr std::string_view kNonFiniteState = "NON_FINITE_STATE";
constexpr std::string_view kDeviceLost = "DEVICE_LOST";

bool HasReason(const absl::Status& status, absl::StatusCode code,
               std::string_view reason) {
  if (status.code() != code) return false;
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail && detail->reason == reason;
}

absl::Status CheckIntrospection(const Segment& segment,
                                const IntrospectionFields& there) {
  if (segment.tokens.size() != 1) {
    return InvalidField("introspection", "only a segment of one token has any");
  }
  for (const IntrospectionField& one : kIntrospectionFields) {
    if (segment.introspection->fields.*one.field && !(there.*one.field)) {
      return InvalidField("introspection",
                          StrCat("the decoder does not have ", one.name));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSegment(const Segment& segment, int64_t vocab,
                          const StateArena& arena, bool draws) {
  if (segment.slot < 0 || segment.slot >= arena.slots()) {
    return InvalidField("slot", StrCat("slot ", segment.slot, " of ", arena.slots(),
                                       " does not exist"));
  }
  const int64_t count = static_cast<int64_t>(segment.tokens.size());
  if (count < 1 || count > kMaxChunk) {
    return InvalidField(
        "tokens", StrCat("a segment takes 1 to ", kMaxChunk, " tokens, got ", count));
  }
  if (segment.draw && !draws) {
    return InvalidField("draw", "the decoder does not draw tokens");
  }
  const bool drawn = draws && count == 1 && segment.tokens[0] == kDrawn;
  for (int64_t i = 0; i < count && !drawn; ++i) {
    if (segment.tokens[i] < 0 || segment.tokens[i] >= vocab) {
      return InvalidField("tokens",
                          StrCat("token ", segment.tokens[i], " at position ",
                                 segment.position + i, " is not in 0..", vocab - 1));
    }
  }
  if (segment.position != arena.length(segment.slot)) {
    return InvalidField("position", StrCat("segment at position ", segment.position,
                                           ", state at ", arena.length(segment.slot)));
  }
  const int64_t limit = arena.spec().max_positions();
  if (count > limit - segment.position) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("position ", segment.position + count,
                            " is beyond the model's limit of ", limit),
                     {.reason = "CONTEXT_LIMIT"});
  }
  return absl::OkStatus();
}

}  // namespace

int64_t FirstVisible(const StateEntry& entry, int64_t position) {
  return entry.growth == Growth::kRing ? std::max<int64_t>(0, position - entry.capacity)
                                       : 0;
}

absl::Status BeginImport(int64_t position, const TensorViews& carry,
                         const StateSpec& carry_spec, StateArena& arena, int32_t slot) {
  const auto& entries = carry_spec.entries;
  if (position < 0 || carry.size() != (position == 0 ? 0 : entries.size())) {
    return InvalidField(
        "carry", StrCat("a carry at position ", position, " with ", carry.size(),
                        " entries does not fit ", entries.size(), " state entries"));
  }
  if (slot < 0 || slot >= arena.slots() || arena.length(slot) != 0) {
    return InvalidField("slot", StrCat("slot ", slot, " is not a fresh slot"));
  }
  for (size_t i = 0; i < carry.size(); ++i) {
    std::vector<int64_t> shape = entries[i].shape;
    if (entries[i].growth != Growth::kFixed) {
      shape.insert(shape.begin(), position - FirstVisible(entries[i], position));
    }
    if (carry[i].name != entries[i].name || carry[i].shape != shape) {
      return InvalidField(
          "carry",
          StrCat("carry entry ", carry[i].name, " [", StrJoin(carry[i].shape, ", "),
                 "] must be ", entries[i].name, " [", StrJoin(shape, ", "), "]"));
    }
  }
  const int64_t first = StateImage::FirstRow(arena.spec(), position);
  arena.StartAt(slot, first);
  absl::Status status = arena.Reserve(slot, position - first);
  if (!status.ok()) arena.Reset(slot);
  return status;
}

absl::Status NonFiniteState() {
  return MakeError(absl::StatusCode::kInternal,
                   "the model computed a state that is not finite",
                   {.reason = std::string(kNonFiniteState)});
}

bool IsNonFiniteState(const absl::Status& status) {
  return HasReason(status, absl::StatusCode::kInternal, kNonFiniteState);
}

absl::Status DeviceLost() {
  return MakeError(absl::StatusCode::kUnavailable,
                   "the device that computes the model was lost",
                   {.reason = std::string(kDeviceLost),
                    .retry_after = std::chrono::milliseconds(1000)});
}

bool IsDeviceLost(const absl::Status& status) {
  return HasReason(status, absl::StatusCode::kUnavailable, kDeviceLost);
}

absl::Status Decoder::Step(std::span<const Segment> segments, StateArena& arena,
                           float* logits) {
  MNEMON_RETURN_IF_ERROR(Submit(segments, arena, logits));
  return Complete({});
}

int64_t LogitsRows(std::span<const Segment> segments) {
  int64_t rows = 0;
  for (const Segment& segment : segments) {
    if (segment.logits == LogitsMode::kLast) rows += 1;
    if (segment.logits == LogitsMode::kAll) {
      rows += static_cast<int64_t>(segment.tokens.size());
    }
  }
  return rows;
}

absl::Status CheckSegments(std::span<const Segment> segments, int64_t vocab,
                           const StateArena& arena, bool draws,
                           const IntrospectionFields& introspection) {
  // Kept between calls: a step does not allocate once it is warm.
  static thread_local std::vector<int32_t> slots;
  slots.clear();
  for (const Segment& segment : segments) {
    absl::Status status = CheckSegment(segment, vocab, arena, draws);
    if (status.ok() && segment.introspection != nullptr) {
      status = CheckIntrospection(segment, introspection);
    }
    if (!status.ok()) return status;
    slots.push_back(segment.slot);
  }
  std::sort(slots.begin(), slots.end());
  if (auto twice = std::adjacent_find(slots.begin(), slots.end());
      twice != slots.end()) {
    return InvalidField("slot", StrCat("slot ", *twice, " stands twice in a step"));
  }
  return absl::OkStatus();
}

}  // namespace mnemon
