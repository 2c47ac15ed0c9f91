// SPDX-License-Identifier: MIT
#include "server/residency/slot_state.h"

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/state/block_recycler.h"
#include "tests/fakes/toy_decoder.h"

namespace mnemon {
namespace {

// Logits after a history that is computed token by token with a state of its own.
std::vector<float> Reference(ToyState toy, const std::vector<int32_t>& history) {
  ToyDecoder decoder(toy, 1 << 20);
  const auto arena = *StateArena::Create(
      decoder.spec(),
      {.slots = 1, .blocks = decoder.spec().growing() ? int64_t{1} << 16 : 0});
  const int32_t slot = *arena->Acquire();
  std::vector<float> logits(ToyDecoder::kVocab);
  for (size_t i = 0; i < history.size(); ++i) {
    const Segment segment{.slot = slot,
                          .position = static_cast<int64_t>(i),
                          .tokens = std::span(&history[i], 1)};
    EXPECT_TRUE(decoder.Step({&segment, 1}, *arena, logits.data()).ok());
  }
  return logits;
}

// One session whose tokens are computed as by an engine.
class SlotStateTest : public testing::TestWithParam<ToyState> {
 protected:
  SlotStateTest() : decoder_(GetParam(), 1 << 14) {
    const StateArena::Options options{
        .slots = 2, .saved_states = 1, .recycler = &recycler_};
    arena_ = *StateArena::Create(decoder_.spec(), options);
    EXPECT_TRUE(state_.Acquire(*arena_, 0).ok());
  }
  ~SlotStateTest() override {
    state_.Release(*arena_);
    AwaitRecycled();
    EXPECT_EQ(arena_->pools().blocks_used(), 0);
    EXPECT_EQ(arena_->slots_used(), 0);
  }

  void AwaitRecycled() const {
    while (arena_->pools().blocks_recycling() > 0) std::this_thread::yield();
  }
  bool fixed() const { return decoder_.spec().fixed_elements() > 0; }
  int64_t size() const { return static_cast<int64_t>(history_.size()); }
  int64_t computed() const { return state_.computed(*arena_); }
  int64_t Random(int64_t below) {
    return std::uniform_int_distribution<int64_t>(0, below - 1)(random_);
  }
  void Append(int64_t count) {
    for (int64_t i = 0; i < count; ++i) history_.push_back(Random(30));
  }

  // One segment; with `throwing` the step fails and leaves the state damaged.
  void FeedSome(bool throwing) {
    const int64_t position = computed();
    state_.ReleaseUnreachable(*arena_, kept_, position);
    AwaitRecycled();
    const int64_t most = state_.ChunkLimit(*arena_, size(), kept_);
    ASSERT_GT(most, 0);
    const int64_t count = std::min<int64_t>(most, 1 + Random(64));
    copies_ += state_.ShadowDue(*arena_, count, kept_);
    state_.BeforeStep(*arena_, count, kept_);
    ASSERT_FALSE(state_.ShadowDue(*arena_, count, kept_));
    ASSERT_LE(state_.shadows(), SlotState::kMaxShadows);
    std::vector<int32_t> tokens(history_.begin() + position,
                                history_.begin() + position + count);
    if (throwing) tokens.back() = ToyDecoder::kThrowing;
    const Segment segment{
        .slot = state_.slot(), .position = position, .tokens = tokens};
    try {
      const absl::Status status = decoder_.Step({&segment, 1}, *arena_, logits_.data());
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(computed(), position + count);
    } catch (const std::runtime_error&) {
      state_.RollBack(*arena_, position);
      ASSERT_LE(computed(), position);
      ASSERT_GE(computed(),
                fixed() ? std::max(first_, position - MostReplayed()) : position);
    }
  }
  int64_t MostReplayed() const {
    return SlotState::PromptInterval(*arena_) + SlotState::kShadowInterval;
  }

  // Computes to the end of the history; one step in `one_in` fails.
  void Compute(int64_t one_in) {
    while (computed() < size()) {
      ASSERT_NO_FATAL_FAILURE(FeedSome(one_in > 0 && Random(one_in) == 0));
    }
  }

  // A fork of the first `history` tokens goes on as if it had computed them itself;
  // returns what it need not compute.
  int64_t CheckFork(int64_t history) {
    SavedState shared;
    EXPECT_TRUE(state_.Share(*arena_, history, shared).ok());
    SlotState child;
    if (!shared.empty()) child.Put(shared);
    std::swap(state_, child);
    const std::vector<int32_t> tokens = history_;
    const int64_t kept = std::exchange(kept_, history);
    history_.resize(static_cast<size_t>(history));
    EXPECT_TRUE(state_.Acquire(*arena_, history).ok());
    const int64_t had = computed();
    EXPECT_LT(had, history);
    Compute(0);
    CheckLogits();
    state_.Release(*arena_);
    std::swap(state_, child);
    history_ = tokens;
    kept_ = kept;
    return had;
  }

  void CheckLogits() { ASSERT_EQ(logits_, Reference(GetParam(), history_)); }

  BlockRecycler recycler_;
  ToyDecoder decoder_;
  std::unique_ptr<StateArena> arena_;
  SlotState state_;
  std::mt19937 random_{23};
  std::vector<float> logits_ = std::vector<float>(ToyDecoder::kVocab * 64);
  std::vector<int32_t> history_;
  int64_t kept_ = 0;
  int64_t first_ = 0;  // computed() at BeginCall
  int64_t copies_ = 0;
};

// Calls that end in every way: before the first delivered token, which leaves nothing
// of them, or later, which leaves the prompt and what was delivered.
TEST_P(SlotStateTest, CallsEndAnywhere) {
  logits_.resize(ToyDecoder::kVocab);
  // What an append state is compared to costs the square of its length.
  const int calls = decoder_.spec().growth() == Growth::kAppend ? 20 : 150;
  for (int call = 0; call < calls; ++call) {
    SCOPED_TRACE(call);
    const std::vector<int32_t> before = history_;
    ASSERT_TRUE(state_.Acquire(*arena_, size()).ok());
    first_ = computed();
    ASSERT_TRUE(state_.BeginCall(*arena_).ok());
    Append(1 + (Random(4) == 0 ? Random(400) : Random(20)));
    kept_ = size();
    const int64_t prompt_end = size();
    const bool fails = Random(3) == 0;
    for (int64_t left = fails ? Random(8) : -1; computed() < size() && left != 0;
         --left) {
      ASSERT_NO_FATAL_FAILURE(FeedSome(Random(8) == 0));
    }
    if (computed() == size()) {
      ASSERT_NO_FATAL_FAILURE(CheckLogits());
    }
    for (int64_t left = fails ? 0 : Random(Random(2) ? 30 : 120); left > 0; --left) {
      Append(1);
      ASSERT_NO_FATAL_FAILURE(Compute(12));
      if (Random(20) == 0) {
        ASSERT_NO_FATAL_FAILURE(CheckLogits());
      }
      const int64_t waiting = size() - kept_;
      if (waiting == 64 || Random(10) == 0) kept_ += 1 + Random(waiting);
      if (kept_ > prompt_end) state_.KeepPrompt(*arena_);
      EXPECT_EQ(state_.can_roll_back_call(), kept_ == prompt_end);
      if (Random(12) == 0) {
        const int64_t had = CheckFork(kept_);
        EXPECT_GE(had,
                  fixed() ? kept_ - 1 - 2 * SlotState::kShadowInterval : kept_ - 1);
      }
      if (Random(24) == 0 && state_.can_roll_back_call() && !before.empty()) {
        EXPECT_GE(CheckFork(static_cast<int64_t>(before.size())), first_);
      }
      if (HasFailure()) return;
    }
    if (state_.can_roll_back_call() && Random(4) != 0) {
      state_.RollBackCall(*arena_);
      EXPECT_EQ(computed(), first_);
      history_ = before;
    } else {
      history_.resize(kept_);
    }
    const int64_t reached = std::min(computed(), std::max<int64_t>(0, size() - 1));
    if (Random(2)) state_.CutBack(*arena_, size());
    // Little of a computed prompt is computed again.
    ASSERT_GE(computed(), fixed() ? reached - 2 * SlotState::kShadowInterval : reached);
    state_.Rest(*arena_, size());
    EXPECT_FALSE(state_.can_roll_back_call());
    EXPECT_EQ(state_.shadows(), 0);
    EXPECT_FALSE(state_.held());
    ASSERT_LE(computed(), std::max<int64_t>(0, size() - 1));
    first_ = 0;
    if (size() > 0 && Random(3) == 0) CheckFork(1 + Random(size()));
    if (HasFailure()) return;
  }
}

TEST_P(SlotStateTest, AStepThatFailsLateInAPromptRepeatsLittle) {
  Append(50);
  kept_ = size();
  ASSERT_NO_FATAL_FAILURE(Compute(0));
  state_.Rest(*arena_, size());
  ASSERT_TRUE(state_.Acquire(*arena_, size()).ok());
  first_ = computed();
  copies_ = 0;
  ASSERT_TRUE(state_.BeginCall(*arena_).ok());
  Append(1500);
  kept_ = size();
  while (computed() < size()) {
    ASSERT_NO_FATAL_FAILURE(FeedSome(false));
    EXPECT_LE(state_.shadows(), 2);
  }
  EXPECT_LE(copies_, 1500 / SlotState::PromptInterval(*arena_) + 2);
  EXPECT_EQ(copies_ > 0, fixed());
  const int64_t position = computed();
  state_.RollBack(*arena_, position);
  EXPECT_GE(computed(), fixed() ? position - MostReplayed() : position);
  state_.RollBackCall(*arena_);
  EXPECT_EQ(computed(), first_);
  history_.resize(50);
  state_.Rest(*arena_, size());
  ASSERT_TRUE(state_.Acquire(*arena_, size()).ok());
  Append(3);
  kept_ = size();
  logits_.resize(ToyDecoder::kVocab);
  ASSERT_NO_FATAL_FAILURE(Compute(0));
  CheckLogits();
}

TEST_P(SlotStateTest, AForkGoesItsOwnWay) {
  Append(75);
  kept_ = size();
  ASSERT_NO_FATAL_FAILURE(Compute(0));
  state_.Rest(*arena_, size());
  SlotState origin = std::move(state_);
  state_ = SlotState();
  const std::vector<int32_t> history = history_;
  SavedState shared;
  ASSERT_TRUE(origin.Share(*arena_, size(), shared).ok());
  state_.Put(shared);
  EXPECT_EQ(state_.computed(*arena_), origin.computed(*arena_));
  ASSERT_TRUE(state_.Acquire(*arena_, size()).ok());
  logits_.resize(ToyDecoder::kVocab);
  for (int round = 0; round < 2; ++round) {
    Append(20);
    kept_ = size();
    ASSERT_NO_FATAL_FAILURE(Compute(0));
    CheckLogits();
    state_.Rest(*arena_, size());
    std::swap(state_, origin);
    history_ = history;
    ASSERT_TRUE(state_.Acquire(*arena_, size()).ok());
  }
  origin.Release(*arena_);
}

INSTANTIATE_TEST_SUITE_P(States, SlotStateTest, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

}  // namespace
}  // namespace mnemon
