// SPDX-License-Identifier: MIT
#include "tests/server/engine/session_oracle.h"

#include <algorithm>
#include <cstring>

#include "gtest/gtest.h"
#include "model/state/arena.h"
#include "model/state/state_image.h"

namespace mnemon {
namespace {

bool Begins(const History& history, const History& with) {
  return with.size() <= history.size() &&
         std::equal(with.begin(), with.end(), history.begin());
}

History Join(const History& a, const History& b) {
  History both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

}  // namespace

void SessionOracle::Check(const SessionLog& log) {
  histories_ = {log.begin};
  for (const Change& change : log.changes()) {
    SCOPED_TRACE(testing::Message() << "change " << histories_.size());
    histories_.push_back(After(log, change));
    if (testing::Test::HasFailure()) return;
  }
  for (const Look& look : log.looks()) {
    if (look.snapshot.empty()) {
      EXPECT_TRUE(FitsSize(log, look)) << look.position << " tokens, between changes "
                                       << look.first << " and " << look.last;
      continue;
    }
    EXPECT_TRUE(Fits(log, look, Read(look.snapshot).tokens))
        << look.position << " tokens, between changes " << look.first << " and "
        << look.last;
  }
}

void SessionOracle::CheckEnd(const std::string& snapshot) {
  EXPECT_EQ(Read(snapshot).tokens, histories_.back());
}

History SessionOracle::After(const SessionLog& log, const Change& change) {
  const History& before = histories_.back();
  switch (change.kind) {
    case Change::Kind::kRewind:
      return {before.begin(), before.begin() + change.target};
    case Change::Kind::kRestore: {
      const auto& checkpoints = log.checkpoints();
      const auto kept = std::find_if(
          checkpoints.begin(), checkpoints.end(),
          [&](const auto& entry) { return entry.first == change.checkpoint; });
      History restored = Read(change.snapshot).tokens;
      EXPECT_EQ(std::ssize(restored), kept->second.position);
      EXPECT_TRUE(Fits(log, kept->second, restored)) << "checkpoint " << kept->first;
      return restored;
    }
    case Change::Kind::kGenerate:
      break;
  }
  EXPECT_EQ(change.first_index.value_or(std::ssize(before)), std::ssize(before));
  const History asked = Join(before, change.prompt);
  const History expected =
      ToyContinuation(state_, asked, change.asked, change.sampling);
  EXPECT_TRUE(Begins(expected, change.tokens));
  if (change.whole) {
    EXPECT_EQ(change.tokens.size(), expected.size());
  }
  return change.stays ? Join(asked, change.tokens) : before;
}

bool SessionOracle::FitsSize(const SessionLog& log, const Look& look) const {
  const size_t last = std::min(look.last, log.changes().size());
  for (size_t i = look.first; i <= last; ++i) {
    const auto size = std::ssize(histories_[i]);
    if (size == look.position || (look.part && size > look.position)) return true;
    if (i == last) break;
    const Change& change = log.changes()[i];
    if (change.kind != Change::Kind::kGenerate) continue;
    const auto asked = size + std::ssize(change.prompt);
    const auto most = asked + std::ssize(change.tokens);
    if (look.position > asked && look.position <= most) return true;
  }
  return false;
}

bool SessionOracle::Fits(const SessionLog& log, const Look& look,
                         const History& seen) const {
  const size_t last = std::min(look.last, log.changes().size());
  for (size_t i = look.first; i <= last; ++i) {
    if (look.part ? Begins(histories_[i], seen) : histories_[i] == seen) return true;
    if (i == last) break;
    const Change& change = log.changes()[i];
    if (change.kind != Change::Kind::kGenerate) continue;
    const History asked = Join(histories_[i], change.prompt);
    const bool delivered = seen.size() > asked.size() || look.part;
    if (delivered && Begins(Join(asked, change.tokens), seen)) return true;
  }
  return false;
}

Snapshot SessionOracle::Read(const std::string& bytes) {
  auto snapshot = DecodeSnapshot(bytes, kLimits);
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
  if (!snapshot.ok()) return {};
  const UnsetFloats expected =
      StateAfter(std::span(snapshot->tokens).first(snapshot->computed));
  EXPECT_EQ(snapshot->state.size(), expected.size());
  if (snapshot->state.size() == expected.size() && !expected.empty()) {
    EXPECT_EQ(std::memcmp(snapshot->state.data(), expected.data(),
                          expected.size() * sizeof(float)),
              0)
        << "the state after " << snapshot->computed << " tokens";
  }
  return *std::move(snapshot);
}

UnsetFloats SessionOracle::StateAfter(std::span<const int32_t> tokens) {
  UnsetFloats image;
  if (tokens.empty()) return image;
  auto arena = StateArena::Create(decoder_.spec(), {.slots = 1});
  EXPECT_TRUE(arena.ok());
  const int32_t slot = *(*arena)->Acquire();
  std::vector<float> logits(ToyDecoder::kVocab);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Segment segment{.slot = slot,
                          .position = static_cast<int64_t>(i),
                          .tokens = tokens.subspan(i, 1)};
    EXPECT_TRUE(decoder_.Step({&segment, 1}, **arena, logits.data()).ok());
    (*arena)->SetFloor(slot, segment.position);
  }
  const auto computed = std::ssize(tokens);
  image.resize(static_cast<size_t>(StateImage::Floats(decoder_.spec(), computed)));
  SavedState whole;
  EXPECT_TRUE((*arena)->saved().Share(slot, computed, nullptr, whole).ok());
  EXPECT_TRUE(StateImage::Read(decoder_.spec(), (*arena)->memory(), whole, image).ok());
  (*arena)->saved().Drop(whole);
  return image;
}

}  // namespace mnemon
