// SPDX-License-Identifier: MIT
// Cases of a few states in a small arena: what is done to them, and where they are
// then.
#include "server/residency/residency.h"

#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/toy_decoder.h"

namespace mnemon {
namespace {

using Place = ResidentState::Place;

constexpr int64_t kBlocks = 8;  // of 16 positions
constexpr int32_t kSlots = 3;   // beside that of tasks

struct ToyResident final : ResidentState {
  int64_t history_size() const override { return tokens; }
  bool named() const override { return true; }
  int64_t tokens = 0;
};

// States by name, and words that do things to them.
class Scene {
 public:
  explicit Scene(bool on_host)
      : decoder_(ToyState::kAppend),
        memory_(std::make_shared<EngineMemory>(
            ByteBudget::kUnlimited, std::vector<int64_t>{ToyDecoder::kVocab})),
        residency_(*StateArena::Create(decoder_.spec(),
                                       {.slots = kSlots + 1, .blocks = kBlocks}),
                   on_host, memory_) {
    residency_.BeginRound();
  }
  ~Scene() {
    for (auto& [name, state] : states_) {
      residency_.StopUsing(*state);
      residency_.Drop(*state);
    }
    EXPECT_EQ(residency_.arena().pools().blocks_used(), 0);
  }

  void Do(const std::string& line) {
    std::istringstream in(line);
    std::string verb, name;
    int64_t number = 0;
    in >> verb;
    if (verb == "room") {
      in >> number;
      residency_.MakeRoom(number);
    } else if (verb == "round") {
      residency_.BeginRound();
    } else if (verb == "resume") {
      residency_.ResumeAside();
    } else if (verb == "slot") {
      slot_free_ = residency_.SlotFree();
    } else if (verb == "give") {
      residency_.Ask(1);
      residency_.GiveUpAsked();
    } else if (verb == "shared") {
      residency_.EvictShared();
    } else {
      in >> name >> number;
      DoTo(verb, State(name), number);
    }
  }

  // "a: rests, b: nowhere".
  std::string Places() const {
    std::string text;
    for (const auto& [name, state] : states_) {
      text += (text.empty() ? "" : ", ") + name + ": " + PlaceOf(*state);
    }
    return text;
  }
  Residency& residency() { return residency_; }
  bool slot_free() const { return slot_free_; }

 private:
  void DoTo(std::string_view verb, const std::shared_ptr<ToyResident>& state,
            int64_t number) {
    StateArena& arena = residency_.arena();
    if (verb == "run") {  // so many tokens more
      residency_.Use(state, Place::kRunning);
      ASSERT_TRUE(state->state.Acquire(arena, state->tokens).ok());
      state->tokens += number;
      while (state->state.computed(arena) < state->tokens) Compute(*state);
    } else if (verb == "start") {
      residency_.Use(state, Place::kStarting);
    } else if (verb == "reserve") {
      state->reserved_blocks = number;
    } else if (verb == "aside") {
      residency_.SetAside(*state);
    } else if (verb == "stop") {
      state->reserved_blocks = 0;
      residency_.StopUsing(*state);
    } else if (verb == "rest") {
      residency_.StopUsing(*state);
      residency_.Rest(state);
    } else if (verb == "deliver") {  // since so many seconds
      residency_.StopUsing(*state);
      residency_.SetResting(state);
      residency_.KeepSlot(*state, Residency::Time(std::chrono::seconds(number)));
    } else if (verb == "copy") {  // the state of the first one
      SavedState whole;
      ASSERT_TRUE(
          states_.begin()
              ->second->state.Share(arena, states_.begin()->second->tokens, whole)
              .ok());
      state->tokens = states_.begin()->second->tokens;
      state->state.Put(whole);
      residency_.Rest(state);
    } else if (verb == "restore") {
      residency_.Use(state, Place::kStarting);
      restored_ = residency_.Restore(*state, /*others_run=*/false);
    } else if (verb == "back") {
      residency_.BringBack(state);
    } else if (verb == "drop") {
      residency_.Drop(*state);
    } else {
      FAIL() << verb;
    }
  }

  void Compute(ToyResident& state) {
    const int64_t position = state.state.computed(residency_.arena());
    const int32_t token = static_cast<int32_t>(position % 7);
    std::vector<float> logits(ToyDecoder::kVocab);
    state.state.BeforeStep(residency_.arena(), 1, position);
    const Segment segment{.slot = state.state.slot(),
                          .position = position,
                          .tokens = std::span(&token, 1)};
    ASSERT_TRUE(decoder_.Step({&segment, 1}, residency_.arena(), logits.data()).ok());
  }

  std::shared_ptr<ToyResident> State(const std::string& name) {
    auto& state = states_[name];
    if (!state) state = std::make_shared<ToyResident>();
    return state;
  }

  static std::string PlaceOf(const ResidentState& state) {
    const std::string has = state.state.held()        ? " in a slot"
                            : state.state.has_state() ? ""
                            : state.state.has_image() ? ""
                                                      : " without a state";
    switch (state.place) {
      case Place::kNowhere:
        return "nowhere" + has;
      case Place::kStarting:
        return "starts" + has;
      case Place::kRunning:
        return "runs" + has;
      case Place::kAside:
        return "aside" + has;
      case Place::kResting:
        return "rests" + has;
      case Place::kImage:
        return "image" + has;
    }
    return "";
  }

  ToyDecoder decoder_;
  const std::shared_ptr<EngineMemory> memory_;
  std::map<std::string, std::shared_ptr<ToyResident>> states_;
  Residency residency_;
  bool slot_free_ = false;
  Residency::Restored restored_ = Residency::Restored::kYes;
};

struct Case {
  const char* name;
  bool on_host;
  std::vector<const char*> done;
  const char* places;
};

class ResidencyCases : public testing::TestWithParam<Case> {};

TEST_P(ResidencyCases, EndWhereTheyShould) {
  Scene scene(GetParam().on_host);
  for (const char* line : GetParam().done) scene.Do(line);
  EXPECT_EQ(scene.Places(), GetParam().places);
}

INSTANTIATE_TEST_SUITE_P(
    All, ResidencyCases,
    testing::ValuesIn(std::vector<Case>{
        {"RestingStatesStayWhileThereIsRoom",
         true,
         {"run a 40", "rest a", "run b 30", "rest b", "room 3"},
         "a: rests, b: rests"},
        {"TheLeastRecentlyUsedIsEvictedFirst",
         true,
         {"run a 40", "rest a", "run b 40", "rest b", "run a 1", "rest a", "room 4"},
         "a: rests, b: nowhere without a state"},
        {"RunningStatesAreNotEvicted",
         true,
         {"run a 60", "run b 60", "room 4"},
         "a: runs in a slot, b: runs in a slot"},
        {"StatesOfCallsThatStartAreEvictedLast",
         true,
         {"run a 40", "rest a", "start a", "run b 40", "rest b", "room 4"},
         "a: starts, b: nowhere without a state"},
        {"AndThenThese",
         true,
         {"run a 40", "rest a", "start a", "run b 40", "rest b", "room 8"},
         "a: starts without a state, b: nowhere without a state"},
        {"SharedBlocksAreWorthNothing",
         true,
         {"run a 40", "rest a", "copy b", "run c 60", "rest c", "room 2"},
         "a: rests, b: rests, c: nowhere without a state"},
        {"UntilNothingElseIsLeft",
         true,
         {"run a 40", "rest a", "copy b", "shared", "shared", "shared"},
         "a: nowhere without a state, b: nowhere without a state"},
        {"ADeliveringCallGivesItsSlotUpWhenNoneIsLeft",
         true,
         {"run a 1", "run b 1", "run c 20", "deliver b 7", "deliver c 5", "slot"},
         "a: runs in a slot, b: rests in a slot, c: rests"},
        {"ADeviceOffloadsToTheHost",
         false,
         {"run a 40", "rest a", "run b 40", "rest b", "room 4"},
         "a: image, b: rests"},
        {"AnImageIsRestored",
         false,
         {"run a 40", "rest a", "room 8", "back a"},
         "a: rests"},
        {"ForACallInItsWay",
         false,
         {"run a 40", "rest a", "room 8", "restore a", "run a 1"},
         "a: runs in a slot"},
        {"AnImageIsDroppedForOthers",
         false,
         {"run a 40", "rest a", "room 8", "give"},
         "a: nowhere without a state"},
        {"AStateIsDroppedForOthersOnTheHost",
         true,
         {"run a 40", "rest a", "run b 40", "rest b", "give"},
         "a: nowhere without a state, b: rests"},
        {"AsideAndBack",
         true,
         {"run a 5", "run b 5", "aside a", "resume", "aside b"},
         "a: runs in a slot, b: aside in a slot"},
    }),
    [](const testing::TestParamInfo<Case>& info) {
      return std::string(info.param.name);
    });

TEST(Residency, PromisedBlocksAreNotFree) {
  Scene scene(/*on_host=*/true);
  Residency& residency = scene.residency();
  EXPECT_EQ(residency.FreeBlocks(kBlocks), kBlocks);
  scene.Do("run a 20");  // two blocks
  scene.Do("reserve a 5");
  EXPECT_EQ(residency.PromisedBlocks(), 3);
  EXPECT_EQ(residency.FreeBlocks(kBlocks), kBlocks - 5);
  scene.Do("aside a");
  EXPECT_EQ(residency.PromisedBlocks(), 3);
  scene.Do("resume");
  EXPECT_EQ(residency.PromisedBlocks(), 3);
  residency.planned().blocks = 2;
  EXPECT_EQ(residency.FreeBlocks(kBlocks), kBlocks - 7);
  residency.planned() = {};
  scene.Do("stop a");
  EXPECT_EQ(residency.PromisedBlocks(), 0);
  EXPECT_EQ(residency.FreeBlocks(kBlocks), kBlocks - 2);
}

TEST(Residency, ARoundEvictsABoundedNumber) {
  Scene scene(/*on_host=*/true);
  scene.Do("run a 5");
  scene.Do("rest a");
  for (int i = 0; i < 2 * Residency::kMostEvicted; ++i) {
    scene.Do("copy b" + std::to_string(i));
  }
  // Each of them shares the one block, so that none is worth anything.
  scene.Do("room 8");
  EXPECT_TRUE(scene.residency().unfinished());
  scene.Do("round");
  EXPECT_FALSE(scene.residency().unfinished());
}

TEST(Residency, WhatIsAskedForIsGivenUpOnce) {
  Scene scene(/*on_host=*/true);
  EXPECT_FALSE(scene.residency().Ask(1));
  scene.Do("run a 5");
  scene.Do("rest a");
  EXPECT_TRUE(scene.residency().Ask(1));
  EXPECT_TRUE(scene.residency().GiveUpAsked());
  EXPECT_FALSE(scene.residency().GiveUpAsked());
  EXPECT_EQ(scene.Places(), "a: nowhere without a state");
}

}  // namespace
}  // namespace mnemon
