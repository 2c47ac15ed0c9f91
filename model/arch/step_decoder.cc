// SPDX-License-Identifier: MIT
#include "model/arch/step_decoder.h"

#include <new>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

std::string NumericsId(const StepOptions& options) {
  return StrCat("step/", options.format == WeightFormat::kFp32 ? "fp32" : "bf16",
                "/cpu-", options.operations->target, "/r", kKernelRevision);
}

// Gives back what was reserved and not fed.
void GiveBack(std::span<const Segment> segments, StateArena& arena) {
  for (const Segment& segment : segments) {
    arena.Truncate(segment.slot, segment.position);
  }
}

absl::Status OutOfMemory() {
  return MakeError(absl::StatusCode::kResourceExhausted, "not enough memory",
                   {.reason = "OUT_OF_MEMORY"});
}

}  // namespace

StepDecoder::StepDecoder(const ModelConfig& config, StateSpec carry_spec,
                         StateSpec spec, const StepOptions& options)
    : config_(config),
      carry_spec_(std::move(carry_spec)),
      spec_(std::move(spec)),
      numerics_id_(NumericsId(options)),
      kernels_(*options.operations, *options.team) {}

absl::Status StepDecoder::Step(std::span<const Segment> segments, StateArena& arena,
                               float* logits) {
  MNEMON_RETURN_IF_ERROR(CheckSegments(segments, config_, arena));
  absl::Status status;
  for (const Segment& segment : segments) {
    status = arena.Reserve(segment.slot, static_cast<int64_t>(segment.tokens.size()));
    if (!status.ok()) break;
  }
  // Memory can run out only before the first pass has begun: room comes first.
  if (status.ok()) {
    try {
      MakeRoomFor(segments, arena);
    } catch (const std::bad_alloc&) {
      status = OutOfMemory();
    }
  }
  if (!status.ok()) {
    GiveBack(segments, arena);
    return status;
  }
  for (size_t begin = 0; begin < segments.size();) {
    size_t end = begin;
    int64_t rows = 0;
    while (end < segments.size() && rows < kRowsAtOnce) {
      rows += static_cast<int64_t>(segments[end++].tokens.size());
    }
    Feed(segments.subspan(begin, end - begin), arena, logits);
    begin = end;
  }
  for (const Segment& segment : segments) {
    arena.Advance(segment.slot, static_cast<int64_t>(segment.tokens.size()));
  }
  return absl::OkStatus();
}

void StepDecoder::MakeRoomFor(std::span<const Segment> segments,
                              const StateArena& arena) {
  int64_t rows = 0, blocks = 0;
  for (const Segment& segment : segments) {
    const auto count = static_cast<int64_t>(segment.tokens.size());
    rows += count;
    blocks += (segment.position + count) / kBlockPositions + 1 -
              arena.first_held(segment.slot) / kBlockPositions;
  }
  rows = std::min(rows, kRowsAtOnce + kMaxChunk);
  batch_.runs.reserve(std::min<size_t>(segments.size(), kRowsAtOnce));
  batch_.ids.reserve(rows);
  batch_.positions.reserve(rows);
  batch_.places.reserve(rows);
  batch_.wanted.reserve(rows);
  if (spec_.growing()) batch_.blocks.reserve(blocks);
  MakeRoom(rows);
}

void StepDecoder::Feed(std::span<const Segment> segments, StateArena& arena,
                       float*& logits) {
  batch_.runs.clear();
  batch_.ids.clear();
  batch_.positions.clear();
  batch_.blocks.clear();
  batch_.places.clear();
  batch_.wanted.clear();
  const bool growing = spec_.growing();
  for (const Segment& segment : segments) {
    const auto count = static_cast<int64_t>(segment.tokens.size());
    const int64_t end = segment.position + count;
    StepBatch::Run run{.slot = segment.slot,
                       .first = batch_.rows(),
                       .count = count,
                       .position = segment.position};
    if (growing) {
      run.block = static_cast<int64_t>(batch_.blocks.size());
      run.base = arena.first_held(segment.slot) / kBlockPositions;
      for (int64_t b = run.base; b * kBlockPositions < end; ++b) {
        batch_.blocks.push_back(arena.Block(segment.slot, b));
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = segment.position + i;
      batch_.ids.push_back(segment.tokens[i]);
      batch_.positions.push_back(position);
      if (growing) {
        batch_.places.push_back(
            {.block = arena.Block(segment.slot, position / kBlockPositions),
             .slot = position % kBlockPositions});
      }
    }
    const int64_t last = batch_.rows() - 1;
    if (segment.logits == LogitsMode::kAll) {
      for (int64_t r = run.first; r <= last; ++r) {
        batch_.wanted.push_back(static_cast<int32_t>(r));
      }
    } else if (segment.logits == LogitsMode::kLast) {
      batch_.wanted.push_back(static_cast<int32_t>(last));
    }
    batch_.runs.push_back(run);
  }
  Prepare(batch_, arena);
  kernels_.Run([&](StepKernels& k) { Forward(k, batch_, logits); });
  logits += static_cast<int64_t>(batch_.wanted.size()) * config_.vocab;
}

absl::Status StepDecoder::Import(int64_t position, const TensorViews& carry,
                                 StateArena& arena, int32_t slot) {
  MNEMON_RETURN_IF_ERROR(BeginImport(position, carry, carry_spec_, arena, slot));
  try {
    if (position > 0) ImportRows(position, carry, arena, slot);
  } catch (const std::bad_alloc&) {
    arena.Reset(slot);
    return OutOfMemory();
  }
  arena.Advance(slot, position - arena.length(slot));
  arena.SetFloor(slot, position);
  return absl::OkStatus();
}

std::vector<Place> StepDecoder::Places(StateArena& arena, int32_t slot, int64_t first,
                                       int64_t count) {
  std::vector<Place> places;
  for (int64_t p = first; p < first + count; ++p) {
    places.push_back(
        {.block = arena.Block(slot, p / kBlockPositions), .slot = p % kBlockPositions});
  }
  return places;
}

}  // namespace mnemon
