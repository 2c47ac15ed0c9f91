// SPDX-License-Identifier: MIT
#include "model/steps/step_decoder.h"

#include <algorithm>
#include <bit>

#include "base/out_of_memory.h"
#include "base/status_macros.h"

namespace mnemon {
namespace {

int64_t Tokens(const Segment& segment) {
  return static_cast<int64_t>(segment.tokens.size());
}

int64_t Tokens(std::span<const Segment> segments) {
  int64_t tokens = 0;
  for (const Segment& segment : segments) tokens += Tokens(segment);
  return tokens;
}

// Copies of more bytes are shared out among the workers, which takes a few
// microseconds.
constexpr int64_t kCopyAlone = int64_t{64} << 10;

// Of attention: room for so many comes first.
constexpr int64_t kLeastGroups = 16;

// Gives back what was reserved and not computed.
void GiveBack(std::span<const Segment> segments, StateArena& arena) {
  for (const Segment& segment : segments) {
    arena.Truncate(segment.slot, segment.position);
  }
}

}  // namespace

StepDecoder::StepDecoder(const ModelConfig& config, StateSpec carry_spec,
                         StateSpec spec, const TensorViews& views,
                         const StepOptions& options)
    : config_(config),
      carry_spec_(std::move(carry_spec)),
      spec_(std::move(spec)),
      numerics_id_(StepNumericsId(options)),
      weights_(views, options),
      kernels_(*options.operations, *options.pool),
      ways_(options.pool->count()) {}

absl::Status StepDecoder::Step(std::span<const Segment> segments, StateArena& arena,
                               float* logits) {
  MNEMON_RETURN_IF_ERROR(CheckSegments(segments, config_, arena));
  absl::Status status = Reserve(segments, arena);
  // Memory can run out only before the first group is computed: room comes first.
  if (status.ok()) {
    status = CatchOutOfMemory({}, [&] {
      MakeRoom(segments);
      return absl::OkStatus();
    });
  }
  if (!status.ok()) {
    GiveBack(segments, arena);
    return status;
  }
  for (std::span<const Segment> rest = segments; !rest.empty();) {
    const std::span<const Segment> group = Group(rest);
    Compute(group, arena, logits);
    rest = rest.subspan(group.size());
  }
  for (const Segment& segment : segments) arena.Advance(segment.slot, Tokens(segment));
  return absl::OkStatus();
}

absl::Status StepDecoder::Reserve(std::span<const Segment> segments,
                                  StateArena& arena) {
  absl::Status status;
  for (size_t i = 0; i < segments.size() && status.ok(); ++i) {
    status = arena.Reserve(segments[i].slot, Tokens(segments[i]), copies_);
  }
  if (copies_.bytes() > kCopyAlone) {
    kernels_.RunAlone([this](CpuWorker&, int worker) {
      copies_.Make(worker, static_cast<int>(ways_.size()));
    });
  } else {
    copies_.Make(0, 1);
  }
  arena.Finish(copies_);
  return status;
}

std::span<const Segment> StepDecoder::Group(std::span<const Segment> segments) {
  size_t end = 0;
  for (int64_t rows = 0; end < segments.size() && rows < kRowsAtOnce; ++end) {
    rows += Tokens(segments[end]);
  }
  return segments.first(end);
}

int StepDecoder::Deal(std::span<const Segment> group) {
  const int64_t rows = Tokens(group);
  const auto workers = static_cast<int64_t>(ways_.size());
  if (workers > 1 && rows >= kRowsAlone * workers &&
      weights_.packed().bytes() <= kBytesAlone) {
    int64_t dealt = 0, most = 0;
    std::span<const Segment> rest = group;
    for (int64_t w = 0; w < workers; ++w) {
      const int64_t before = dealt;
      size_t count = 0;
      while (count < rest.size() && dealt * workers < rows * (w + 1)) {
        dealt += Tokens(rest[count++]);
      }
      ways_[w].segments = rest.first(count);
      rest = rest.subspan(count);
      most = std::max(most, dealt - before);
    }
    // Who has more than a fair part would keep the others waiting.
    if (most * workers * 8 <= rows * 9) return static_cast<int>(workers);
  }
  ways_[0].segments = group;
  return 1;
}

void StepDecoder::MakeRoom(std::span<const Segment> segments) {
  while (!segments.empty()) {
    const std::span<const Segment> group = Group(segments);
    segments = segments.subspan(group.size());
    const int used = Deal(group);
    for (int w = 0; w < used; ++w) {
      Way& way = ways_[w];
      const int64_t rows = Tokens(way.segments);
      int64_t most_blocks = 0;
      for (const Segment& segment : way.segments) {
        const int64_t held = (segment.position + Tokens(segment)) / kBlockPositions +
                             1 - arena.first_held(segment.slot) / kBlockPositions;
        most_blocks = std::max(most_blocks, held);
      }
      way.batch.Reserve(rows);
      if (way.pass == nullptr) way.pass = MakePass();
      way.pass->MakeRoom(rows);
      // Not at every group that is begun.
      const int64_t groups = std::max<int64_t>(
          kLeastGroups, std::bit_ceil(uint64_t(most_blocks / kGroupBlocks + 2)));
      kernels_.Reserve(
          std::max(LinearScratch(rows, std::max(config_.d_model, config_.d_ff)),
                   Scratch(groups)));
    }
  }
}

void StepDecoder::Compute(std::span<const Segment> group, StateArena& arena,
                          float*& logits) {
  const int used = Deal(group);
  for (int w = 0; w < used; ++w) {
    Way& way = ways_[w];
    way.batch.Clear();
    for (const Segment& segment : way.segments) way.batch.Add(segment, arena);
    way.pass->Prepare(way.batch, arena);
    way.logits = logits;
    logits += static_cast<int64_t>(way.batch.wanted.size()) * config_.vocab;
  }
  if (used == 1) {
    kernels_.Run([this](CpuWorker& k) { ways_[0].pass->Forward(k, ways_[0].logits); });
  } else {
    kernels_.RunAlone([this](CpuWorker& k, int worker) {
      ways_[worker].pass->Forward(k, ways_[worker].logits);
    });
  }
}

absl::Status StepDecoder::Import(int64_t position, const TensorViews& carry,
                                 StateArena& arena, int32_t slot) {
  MNEMON_RETURN_IF_ERROR(BeginImport(position, carry, carry_spec_, arena, slot));
  const absl::Status status = CatchOutOfMemory({}, [&] {
    if (position > 0) ImportRows(position, carry, arena, slot);
    return absl::OkStatus();
  });
  if (!status.ok()) {
    arena.Reset(slot);
    return status;
  }
  arena.Advance(slot, position - arena.length(slot));
  arena.SetFloor(slot, position);
  return absl::OkStatus();
}

std::vector<Place> StepDecoder::Places(const StateArena& arena, int32_t slot,
                                       int64_t first, int64_t count) {
  const BlockTable table = arena.Table(slot);
  std::vector<Place> places;
  for (int64_t p = first; p < first + count; ++p) {
    places.push_back(
        {.block = table.block(p / kBlockPositions), .slot = p % kBlockPositions});
  }
  return places;
}

}  // namespace mnemon
