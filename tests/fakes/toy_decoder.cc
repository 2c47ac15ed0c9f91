// SPDX-License-Identifier: MIT
#include "tests/fakes/toy_decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <stdexcept>

#include "base/check.h"
#include "base/status_macros.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

// State values are integers below this prime: exact in a float.
constexpr uint64_t kPrime = 65521;

bool HasFixed(ToyState state) {
  return state == ToyState::kFixed || state == ToyState::kFixedAndRing ||
         state == ToyState::kFixedAndAppend;
}

StateSpec MakeSpec(ToyState state, int64_t append_capacity) {
  StateSpec spec;
  if (HasFixed(state)) {
    spec.entries.push_back({.name = "sums", .shape = {3}, .fill = 7.0f});
  }
  if (state == ToyState::kFixed) return spec;
  const bool ring = state == ToyState::kRing || state == ToyState::kFixedAndRing;
  for (const auto& [name, size] : {std::pair{"pairs", 2}, std::pair{"tails", 1}}) {
    spec.entries.push_back(
        {.name = name,
         .shape = {size},
         .growth = ring ? Growth::kRing : Growth::kAppend,
         .capacity = ring ? ToyDecoder::kRingCapacity : append_capacity});
  }
  return spec;
}

uint64_t Integer(float value) { return static_cast<uint64_t>(value); }

// SplitMix64's finaliser.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

std::string ToyName(ToyState state) {
  constexpr const char* kNames[] = {"Fixed", "Ring", "Append", "FixedAndRing",
                                    "FixedAndAppend"};
  return kNames[static_cast<int>(state)];
}

ToyDecoder::ToyDecoder(ToyState state, int64_t append_capacity)
    : spec_(MakeSpec(state, append_capacity)) {
  model_.width = 1;
  model_.vocab = kVocab;
  model_.layers = {{{.name = "attn", .block = Attention{}},
                    {.name = "fast", .block = FastWeights{}}}};
}

void ToyDecoder::Allow(int64_t steps) {
  std::lock_guard lock(mutex_);
  allowed_ = steps;
  held_ = false;
  changed_.notify_all();
}

void ToyDecoder::AllowAll() { Allow(-1); }

void ToyDecoder::AwaitHeld() {
  std::unique_lock lock(mutex_);
  MNEMON_CHECK(changed_.wait_for(lock, kPatience, [&] { return held_; }));
}

size_t ToyDecoder::largest_step() const {
  std::lock_guard lock(mutex_);
  return largest_step_;
}

size_t ToyDecoder::longest_segment() const {
  std::lock_guard lock(mutex_);
  return longest_segment_;
}

void ToyDecoder::PassGate(std::span<const Segment> segments) {
  std::unique_lock lock(mutex_);
  largest_step_ = std::max(largest_step_, segments.size());
  for (const Segment& s : segments) {
    longest_segment_ = std::max(longest_segment_, s.tokens.size());
  }
  while (allowed_ == 0) {
    held_ = true;
    changed_.notify_all();
    changed_.wait(lock);
  }
  if (allowed_ > 0) --allowed_;
}

absl::Status ToyDecoder::Submit(std::span<const Segment> segments, StateArena& arena,
                                float* logits) {
  PassGate(segments);
  MNEMON_RETURN_IF_ERROR(
      CheckSegments(segments, kVocab, arena, /*draws=*/false, introspection()));
  for (const Segment& s : segments) {
    MNEMON_RETURN_IF_ERROR(arena.Reserve(s.slot, s.tokens.size()));
  }
  for (const Segment& s : segments) {
    for (int32_t token : s.tokens) {
      if (token == kFailing) return absl::InternalError("toy failure");
      if (token == kOutOfMemory) throw std::bad_alloc();
      if (token != kThrowing && token != kNonFinite) continue;
      for (const Segment& other : segments) Damage(arena, other.slot);
      if (token == kNonFinite) return NonFiniteState();
      throw std::runtime_error("toy exception");
    }
  }
  const bool fixed = spec_.fixed_elements() > 0;
  for (const Segment& s : segments) {
    const float sum_before = fixed ? *arena.Fixed(s.slot, 0) : 0;
    for (size_t i = 0; i < s.tokens.size(); ++i) {
      ComputeToken(arena, s.slot, s.position + i, s.tokens[i]);
      const bool last = i + 1 == s.tokens.size();
      if (s.logits == LogitsMode::kNone || (s.logits == LogitsMode::kLast && !last)) {
        continue;
      }
      Logits(arena, s.slot, s.position + i, logits);
      if (s.tokens[i] == kNotANumber) logits[3] = NAN;
      logits += kVocab;
    }
    if (s.introspection) Introspect(arena, s, sum_before, *s.introspection);
    arena.Advance(s.slot, s.tokens.size());
  }
  return absl::OkStatus();
}

IntrospectionFields ToyDecoder::introspection() const {
  const bool fixed = spec_.fixed_elements() > 0;
  return {.hidden_state = true,
          .memory_reads = spec_.growing(),
          .update_norms = fixed,
          .state_norms = fixed};
}

void ToyDecoder::Introspect(const StateArena& arena, const Segment& segment,
                            float sum_before, Introspection& out) const {
  const int64_t position = segment.position;
  if (out.fields.hidden_state) {
    std::array<float, kVocab> logits;
    Logits(arena, segment.slot, position, logits.data());
    out.hidden_state = {logits[0]};
  }
  if (out.fields.memory_reads) {
    const int64_t first = FirstVisible(spec_.entries.back(), position);
    const auto count = static_cast<size_t>(position - first + 1);
    out.memory_reads = {.layers = 1,
                        .heads = 1,
                        .first_index = first,
                        .positions = position - first + 1,
                        .weights = std::vector(count, 1 / static_cast<float>(count))};
  }
  const float* const sums =
      spec_.fixed_elements() > 0 ? arena.Fixed(segment.slot, 0) : nullptr;
  if (out.fields.update_norms) out.update_norms = {std::abs(sums[0] - sum_before)};
  if (out.fields.state_norms) out.state_norms = {sums[0]};
}

void ToyDecoder::ComputeToken(StateArena& arena, int32_t slot, int64_t position,
                              int32_t token) {
  int entry = 0;
  if (spec_.fixed_elements() > 0) {
    float* sums = arena.Fixed(slot, entry++);
    const uint64_t a = (Integer(sums[0]) * 31 + token + 1) % kPrime;
    const uint64_t b = (Integer(sums[1]) * 17 + a * 3 + position) % kPrime;
    const uint64_t c = (Integer(sums[2]) + a * b) % kPrime;
    sums[0] = static_cast<float>(a);
    sums[1] = static_cast<float>(b);
    sums[2] = static_cast<float>(c);
  }
  if (!spec_.growing()) return;
  uint64_t seen = 0;
  const int64_t first = spec_.growth() == Growth::kRing
                            ? std::max<int64_t>(0, position - spec_.capacity())
                            : 0;
  // A block at a time: most of the time of some tests is here.
  for (int64_t j = first; j < position;) {
    const int64_t end = std::min(position, (j / kBlockPositions + 1) * kBlockPositions);
    const float* pair = arena.Row(slot, entry, j);
    const float* tail = arena.Row(slot, entry + 1, j);
    for (; j < end; ++j, pair += 2, ++tail) {
      seen =
          (seen * 29 + Integer(pair[0]) * 5 + Integer(pair[1]) * 3 + Integer(*tail)) %
          kPrime;
    }
  }
  float* pair = arena.Row(slot, entry, position);
  pair[0] = static_cast<float>(token);
  pair[1] = static_cast<float>(seen);
  *arena.Row(slot, entry + 1, position) =
      static_cast<float>((seen * 11 + token * 7 + position) % kPrime);
}

void ToyDecoder::Damage(StateArena& arena, int32_t slot) {
  if (spec_.fixed_elements() > 0) *arena.Fixed(slot, 0) = 12345.0f;
  if (spec_.growing()) {
    const int entry = spec_.fixed_elements() > 0 ? 1 : 0;
    *arena.Row(slot, entry, arena.length(slot)) = 12345.0f;
  }
}

void ToyDecoder::Logits(const StateArena& arena, int32_t slot, int64_t position,
                        float* out) const {
  uint64_t hash = position;
  int entry = 0;
  if (spec_.fixed_elements() > 0) {
    for (int i = 0; i < 3; ++i) hash = Mix(hash + Integer(arena.Fixed(slot, 0)[i]));
    entry = 1;
  }
  if (spec_.growing()) {
    hash = Mix(hash + Integer(arena.Row(slot, entry, position)[1]));
    hash = Mix(hash + Integer(*arena.Row(slot, entry + 1, position)));
  }
  for (int v = 0; v < kVocab; ++v) {
    hash = Mix(hash + v);
    out[v] =
        v < kOrdinaryTokens ? static_cast<float>(hash % 4001) / 1000.0f : -INFINITY;
  }
}

absl::Status ToyDecoder::Import(int64_t, const TensorViews&, StateArena&, int32_t) {
  return absl::UnimplementedError("a toy has no sequence form");
}

std::vector<int32_t> ToyContinuation(ToyState state, std::vector<int32_t> history,
                                     int64_t count, const SamplingParams& sampling) {
  ToyDecoder decoder(state);
  auto arena = StateArena::Create(decoder.spec(), {.slots = 1});
  MNEMON_CHECK(arena.ok());
  const int32_t slot = *(*arena)->Acquire();
  std::vector<float> logits(ToyDecoder::kVocab);
  SamplerScratch scratch;
  PenaltyCounts penalties(sampling, ToyDecoder::kVocab);
  std::vector<int32_t> tokens;
  for (size_t i = 0; static_cast<int64_t>(tokens.size()) < count; ++i) {
    const Segment segment{.slot = slot,
                          .position = static_cast<int64_t>(i),
                          .tokens = std::span(&history[i], 1)};
    MNEMON_CHECK(decoder.Step({&segment, 1}, **arena, logits.data()).ok());
    (*arena)->SetFloor(slot, i);
    if (i + 1 < history.size()) continue;
    penalties.Update(history);
    tokens.push_back(*Sample(logits, sampling, i + 1, scratch, penalties.counts()));
    history.push_back(tokens.back());
  }
  return tokens;
}

std::vector<Introspection> ToyIntrospections(ToyState state,
                                             const std::vector<int32_t>& history,
                                             const IntrospectionFields& fields,
                                             int64_t append_capacity) {
  ToyDecoder decoder(state, append_capacity);
  auto arena = StateArena::Create(decoder.spec(), {.slots = 1});
  MNEMON_CHECK(arena.ok());
  const int32_t slot = *(*arena)->Acquire();
  std::vector<Introspection> all;
  for (size_t i = 0; i < history.size(); ++i) {
    all.push_back({.fields = fields});
    const Segment segment{.slot = slot,
                          .position = static_cast<int64_t>(i),
                          .tokens = std::span(&history[i], 1),
                          .logits = LogitsMode::kNone,
                          .introspection = &all.back()};
    MNEMON_CHECK(decoder.Step({&segment, 1}, **arena, nullptr).ok());
    (*arena)->SetFloor(slot, i);
  }
  return all;
}

}  // namespace mnemon
