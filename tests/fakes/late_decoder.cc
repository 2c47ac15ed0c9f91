// SPDX-License-Identifier: MIT
#include "tests/fakes/late_decoder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "model/compute/kernels.h"

namespace mnemon {
namespace {

constexpr int64_t kBlock = kBlockPositions;
constexpr int32_t kMostSegments = 512;

}  // namespace

LateDecoder::LateDecoder(Decoder& decoder, const Options& options)
    : decoder_(decoder), options_(options), random_(options.seed) {
  arena_ = *StateArena::Create(decoder.spec(), {.slots = kMostSegments});
}

bool LateDecoder::Chance(uint32_t one_in) {
  return one_in > 0 && random_() % one_in == 0;
}

LateDecoder::Fault LateDecoder::PickFault() {
  if (lose_.exchange(false)) return Fault::kLost;
  if (Chance(options_.out_of_memory)) return Fault::kOutOfMemory;
  if (Chance(options_.non_finite)) return Fault::kNonFinite;
  return Chance(options_.lost) ? Fault::kLost : Fault::kNone;
}

std::unique_ptr<StateMemory> LateDecoder::MakeStateMemory() {
  auto memory = std::make_unique<FarMemory>();
  memory_ = memory.get();
  return memory;
}

void LateDecoder::DropSteps() {
  thread_.AwaitAll();
  for (const auto& step : steps_) step->arena->Finish(step->copies);
  steps_.clear();
}

absl::Status LateDecoder::Lose() {
  is_lost_ = true;
  ++times_lost_;
  thread_.Give([this] { dead_ = true; }, /*due=*/true);
  DropSteps();
  drawing_.clear();
  return DeviceLost();
}

absl::Status LateDecoder::Restart() {
  MNEMON_CHECK(is_lost_);
  if (restarts_failed_++ < options_.failed_restarts) {
    return absl::UnavailableError("the device is not there");
  }
  restarts_failed_ = 0;
  is_lost_ = broken_ = dead_ = false;
  draws_.clear();
  memory_ = nullptr;
  return absl::OkStatus();
}

absl::Status LateDecoder::BeginDraws(int32_t slot, const SamplingParams& params,
                                     std::span<const int32_t> window) {
  if (is_lost_) return DeviceLost();
  for (const auto& step : steps_) {
    for (const Part& part : step->parts) {
      MNEMON_CHECK(part.segment.slot != slot || !part.segment.draw);
    }
  }
  drawing_[slot] = true;
  Draws draws{.params = params,
              .counts = PenaltyCounts(params, model().vocab),
              .window = {window.begin(), window.end()}};
  thread_.Give([this, slot, draws = std::move(draws)] { draws_[slot] = draws; }, false);
  return absl::OkStatus();
}

void LateDecoder::EndDraws(int32_t slot) {
  drawing_.erase(slot);
  thread_.Give([this, slot] { draws_.erase(slot); }, false);
}

absl::Status LateDecoder::Reserve(std::span<const Segment> segments, StateArena& arena,
                                  BlockCopies& copies) {
  for (const Segment& segment : segments) {
    const auto count = static_cast<int64_t>(segment.tokens.size());
    MNEMON_RETURN_IF_ERROR(arena.Reserve(segment.slot, count, copies));
  }
  return absl::OkStatus();
}

absl::Status LateDecoder::Submit(std::span<const Segment> segments, StateArena& arena,
                                 float* logits) {
  MNEMON_CHECK(steps_.size() < 2 && segments.size() <= kMostSegments);
  MNEMON_RETURN_IF_ERROR(CheckSegments(segments, model().vocab, arena, /*draws=*/true));
  if (is_lost_) return DeviceLost();
  auto step = std::make_unique<Step>();
  step->fault = PickFault();
  if (step->fault != Fault::kNone) ++failed_;
  const bool now = random_() % 2 == 0;
  if (now && step->fault == Fault::kLost) return Lose();
  if (now && step->fault == Fault::kOutOfMemory) return OutOfMemoryError();
  if (absl::Status status = Reserve(segments, arena, step->copies); !status.ok()) {
    // What was reserved has to have its copies.
    thread_.AwaitAll();
    step->copies.Make(0, 1);
    arena.Finish(step->copies);
    for (const Segment& segment : segments) {
      arena.Truncate(segment.slot, segment.position);
    }
    return status;
  }
  step->arena = &arena;
  step->logits = logits;
  for (const Segment& segment : segments) {
    const auto count = static_cast<int64_t>(segment.tokens.size());
    MNEMON_CHECK(!segment.draw || drawing_.contains(segment.slot));
    Part part{.segment = segment,
              .tokens = {segment.tokens.begin(), segment.tokens.end()}};
    if (spec().growing()) {
      const BlockTable table = arena.Table(segment.slot);
      part.base = table.base;
      const int64_t end = (segment.position + count + kBlock - 1) / kBlock;
      part.blocks.assign(table.blocks, table.blocks + end - table.base);
    }
    part.fixed = const_cast<float*>(arena.FixedEntries(segment.slot).data());
    step->parts.push_back(std::move(part));
    arena.Advance(segment.slot, count);
  }
  if (!steps_.empty()) ++ahead_;
  const bool at_once = options_.some_at_once && random_() % 2 == 0;
  step->number = thread_.Give([this, step = step.get()] { Compute(*step); }, at_once);
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status LateDecoder::Complete(std::span<int32_t> drawn) {
  if (is_lost_) return DeviceLost();
  MNEMON_CHECK(!steps_.empty());
  const std::unique_ptr<Step> step = std::move(steps_.front());
  steps_.pop_front();
  thread_.Await(step->number);
  step->arena->Finish(step->copies);
  if (IsDeviceLost(step->status)) return Lose();
  if (!step->status.ok() || step->thrown) {
    DropSteps();
    broken_ = false;
    if (step->thrown) std::rethrow_exception(step->thrown);
    return step->status;
  }
  MNEMON_CHECK(drawn.size() == step->drawn.size());
  std::ranges::copy(step->drawn, drawn.begin());
  return absl::OkStatus();
}

float* LateDecoder::Near(float* far, int64_t count) {
  return memory_ == nullptr ? far : memory_->Near(far, count);
}

float* LateDecoder::RowOf(const Part& part, size_t entry, int64_t position) {
  const int64_t block = position / kBlock - part.base;
  MNEMON_CHECK(block >= 0);  // one that is held
  const int64_t elements = spec().entries[entry].elements();
  return Near(part.blocks[static_cast<size_t>(block)] + spec().offset(entry) +
                  position % kBlock * elements,
              elements);
}

void LateDecoder::Load(const Part& part, int32_t slot) {
  const int64_t position = part.segment.position;
  const auto count = static_cast<int64_t>(part.tokens.size());
  const int64_t first = spec().growth() == Growth::kRing
                            ? std::max<int64_t>(0, position - spec().capacity())
                            : 0;
  arena_->StartAt(slot, first);
  MNEMON_CHECK(arena_->Reserve(slot, position + count - first).ok());
  for (size_t e = 0; e < spec().entries.size(); ++e) {
    const int64_t elements = spec().entries[e].elements();
    const int entry = static_cast<int>(e);
    if (spec().entries[e].growth == Growth::kFixed) {
      std::copy_n(Near(part.fixed + spec().offset(e), elements), elements,
                  arena_->Fixed(slot, entry));
      continue;
    }
    for (int64_t p = first; p < position; ++p) {
      std::copy_n(RowOf(part, e, p), elements, arena_->Row(slot, entry, p));
    }
  }
  arena_->Advance(slot, position - first);
}

void LateDecoder::Store(const Part& part, int32_t slot) {
  const int64_t position = part.segment.position;
  const auto end = position + static_cast<int64_t>(part.tokens.size());
  for (size_t e = 0; e < spec().entries.size(); ++e) {
    const int64_t elements = spec().entries[e].elements();
    const int entry = static_cast<int>(e);
    if (spec().entries[e].growth == Growth::kFixed) {
      std::copy_n(std::as_const(*arena_).Fixed(slot, entry), elements,
                  Near(part.fixed + spec().offset(e), elements));
      continue;
    }
    for (int64_t p = position; p < end; ++p) {
      std::copy_n(arena_->Row(slot, entry, p), elements, RowOf(part, e, p));
    }
  }
}

void LateDecoder::Damage(Step& step) {
  for (const Part& part : step.parts) {
    for (size_t e = 0; e < spec().entries.size(); ++e) {
      const bool fixed = spec().entries[e].growth == Growth::kFixed;
      float* const first = fixed ? Near(part.fixed + spec().offset(e), 1)
                                 : RowOf(part, e, part.segment.position);
      *first = 12345.0f;
    }
  }
}

void LateDecoder::Compute(Step& step) {
  if (dead_) return;
  step.copies.Make(0, 1);
  if (broken_) return Damage(step);
  // One that fails has computed, and drawn, what nobody will know.
  try {
    step.status = ComputeParts(step);
  } catch (...) {
    step.thrown = std::current_exception();
  }
  switch (step.fault) {
    case Fault::kNone:
      break;
    case Fault::kOutOfMemory:
      step.status = OutOfMemoryError();
      break;
    case Fault::kNonFinite:
      step.status = NonFiniteState();
      break;
    case Fault::kLost:
      dead_ = true;
      step.status = DeviceLost();
  }
  if (step.status.ok() && !step.thrown) return;
  broken_ = true;
  Damage(step);
}

absl::Status LateDecoder::ComputeParts(Step& step) {
  while (slots_.size() < step.parts.size()) slots_.push_back(*arena_->Acquire());
  std::vector<Segment> segments;
  for (size_t i = 0; i < step.parts.size(); ++i) {
    Part& part = step.parts[i];
    if (part.tokens[0] == kDrawn) {
      part.tokens[0] = std::max(0, draws_.at(part.segment.slot).last);
    }
    Load(part, slots_[i]);
    Segment segment = part.segment;
    segment.slot = slots_[i];
    segment.tokens = part.tokens;
    segment.draw = false;
    if (part.segment.draw && segment.logits == LogitsMode::kNone) {
      segment.logits = LogitsMode::kLast;
    }
    segments.push_back(segment);
  }
  const auto vocab = static_cast<size_t>(model().vocab);
  std::vector<float> logits(static_cast<size_t>(LogitsRows(segments)) * vocab);
  absl::Status status;
  std::exception_ptr thrown;
  try {
    status = decoder_.Step(segments, *arena_, logits.data());
  } catch (...) {
    thrown = std::current_exception();
  }
  std::span<float> rest = logits;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Part& part = step.parts[i];
    if (status.ok() && !thrown) {
      Store(part, slots_[i]);
      const auto rows = static_cast<size_t>(LogitsRows({&segments[i], 1}));
      const std::span<float> own = rest.first(rows * vocab);
      rest = rest.subspan(own.size());
      if (part.segment.draw) Draw(part, own.last(vocab), step.drawn);
      if (part.segment.logits != LogitsMode::kNone) {
        step.logits = std::ranges::copy(own, step.logits).out;
      }
    }
    arena_->Reset(slots_[i]);
  }
  if (thrown) std::rethrow_exception(thrown);
  return status;
}

void LateDecoder::Draw(const Part& part, std::span<float> logits,
                       std::vector<int32_t>& drawn) {
  Draws& draws = draws_.at(part.segment.slot);
  const int64_t index =
      part.segment.position + static_cast<int64_t>(part.tokens.size());
  draws.counts.Update(draws.window);
  const absl::StatusOr<int32_t> token =
      Sample(logits, draws.params, index, scratch_, draws.counts.counts());
  if (token.ok()) {
    draws.last = *token;
    draws.window.push_back(*token);
  } else {
    draws.last = token.status().code() == absl::StatusCode::kInvalidArgument
                     ? kNoTokenAllowed
                     : kUnusableLogits;
  }
  drawn.push_back(draws.last);
}

absl::Status LateDecoder::Import(int64_t, const TensorViews&, StateArena&, int32_t) {
  return absl::UnimplementedError("a fake device has no sequence form");
}

}  // namespace mnemon
