// SPDX-License-Identifier: MIT
#include "bench/kernels/sessions.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/kernels.h"

namespace mnemon {
namespace {

// Floats of a carry entry after `context` tokens, and the shape of its view.
std::vector<int64_t> CarryShape(const StateEntry& entry, int64_t context) {
  std::vector<int64_t> shape = entry.shape;
  if (entry.growth == Growth::kRing) context = std::min(context, entry.capacity);
  if (entry.growth != Growth::kFixed) shape.insert(shape.begin(), context);
  return shape;
}

// Random numbers starting at the place given by `seed`, repeated after the last:
// hundreds of sessions hold gigabytes, which would take long to draw one by one.
std::vector<float> Draw(const std::vector<int64_t>& shape, uint32_t seed) {
  static const std::vector<float> drawn = [] {
    std::minstd_rand random;
    std::uniform_real_distribution<float> value(-0.1f, 0.1f);
    std::vector<float> floats(65521);  // a prime, so that no two rows are alike
    for (float& f : floats) f = value(random);
    return floats;
  }();
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  std::vector<float> floats(count);
  size_t from = size_t{seed} * 7919 % drawn.size();
  for (size_t i = 0; i < count; from = 0) {
    const size_t some = std::min(drawn.size() - from, count - i);
    std::copy_n(drawn.data() + from, some, floats.data() + i);
    i += some;
  }
  return floats;
}

}  // namespace

absl::StatusOr<Sessions> Sessions::Create(const BenchModel& model, int64_t batch,
                                          int64_t context) {
  const StateSpec& spec = model.decoder().spec();
  if (context >= spec.max_positions()) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("a session of ", model.architecture(), " ", model.size(),
                            " takes at most ", spec.max_positions(),
                            " tokens, fewer than ", context, " and one more"),
                     {.reason = "CONTEXT_LIMIT"});
  }
  MNEMON_ASSIGN_OR_RETURN(
      std::unique_ptr<StateArena> arena,
      StateArena::Create(spec, {.slots = static_cast<int32_t>(batch),
                                .memory = model.decoder().MakeStateMemory()}));
  Sessions sessions(model, std::move(arena), context);
  for (int64_t i = 0; i < batch; ++i) {
    MNEMON_ASSIGN_OR_RETURN(const int32_t slot, sessions.arena_->Acquire());
    sessions.slots_.push_back(slot);
    MNEMON_RETURN_IF_ERROR(sessions.ImportDrawn(model, slot));
  }
  sessions.segments_.reserve(sessions.slots_.size());
  return sessions;
}

Sessions::Sessions(const BenchModel& model, std::unique_ptr<StateArena> arena,
                   int64_t context)
    : decoder_(&model.decoder()),
      arena_(std::move(arena)),
      context_(context),
      vocab_(model.config().vocab) {
  logits_.resize(static_cast<size_t>(arena_->slots() * vocab_));
  for (int64_t i = 0; i < kMaxChunk + arena_->slots(); ++i) {
    tokens_.push_back(static_cast<int32_t>((i * 7919 + 13) % vocab_));
  }
}

absl::Status Sessions::ImportDrawn(const BenchModel& model, int32_t slot) {
  if (context_ == 0) return absl::OkStatus();
  std::vector<std::vector<float>> floats;
  TensorViews views;
  for (const StateEntry& entry : model.carry_spec().entries) {
    const std::vector<int64_t> shape = CarryShape(entry, context_);
    const size_t seed = static_cast<size_t>(slot) * 1000 + views.size() + 1;
    floats.push_back(Draw(shape, static_cast<uint32_t>(seed)));
    views.push_back({.name = entry.name, .shape = shape, .data = floats.back().data()});
  }
  return decoder_->Import(context_, views, *arena_, slot);
}

void Sessions::Introspect() {
  introspections_.assign(slots_.size(), {.fields = decoder_->introspection()});
}

absl::Status Sessions::Step(int64_t count) {
  segments_.clear();
  for (int64_t i = 0; i < count; ++i) {
    const int32_t slot = slots_[static_cast<size_t>(i)];
    segments_.push_back({.slot = slot,
                         .position = arena_->length(slot),
                         .tokens = {tokens_.data() + i, 1},
                         .logits = LogitsMode::kLast});
    if (introspections_.empty()) continue;
    segments_.back().introspection = &introspections_[static_cast<size_t>(i)];
  }
  return decoder_->Step(segments_, *arena_, logits_.data());
}

void Sessions::Rewind() {
  if (!arena_->spec().growing()) return;
  for (const int32_t slot : slots_) arena_->Truncate(slot, context_);
}

absl::Status Sessions::FeedPrompt(int64_t tokens,
                                  std::chrono::steady_clock::time_point deadline) {
  for (int64_t from = 0; from < tokens; from += kMaxChunk) {
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError("out of time");
    }
    const int64_t count = std::min<int64_t>(kMaxChunk, tokens - from);
    const bool last = from + count == tokens;
    segments_.clear();
    for (size_t i = 0; i < slots_.size(); ++i) {
      segments_.push_back({.slot = slots_[i],
                           .position = from,
                           .tokens = {tokens_.data() + i, static_cast<size_t>(count)},
                           .logits = last ? LogitsMode::kLast : LogitsMode::kNone});
    }
    MNEMON_RETURN_IF_ERROR(decoder_->Step(segments_, *arena_, logits_.data()));
    for (const int32_t slot : slots_) arena_->SetFloor(slot, from + count);
  }
  return absl::OkStatus();
}

void Sessions::Reset() {
  for (const int32_t slot : slots_) arena_->Reset(slot);
}

}  // namespace mnemon
