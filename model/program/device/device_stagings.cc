// SPDX-License-Identifier: MIT
#include "model/program/device/device_stagings.h"

#include <cstddef>
#include <new>
#include <utility>

#include "model/compute/device/device_tables.h"
#include "model/program/device/device_step.h"

namespace mnemon {

DeviceStagings::DeviceStagings(DeviceDriver& driver, void* input)
    : driver_(driver), input_(input) {
  constexpr auto kResult = static_cast<int64_t>(sizeof(StepResult));
  const int64_t bytes = DeviceStep::InputOf(DeviceStep::BucketOf(kStepRows), nullptr)
                            .bytes(DeviceTables::kMostChanges);
  pinned_ = driver.TakePinned(kStagings * (bytes + kResult));
  auto* memory = static_cast<char*>(pinned_);
  auto* result = reinterpret_cast<StepResult*>(memory + kStagings * bytes);
  for (Staging& staging : stagings_) {
    staging.memory = std::exchange(memory, memory + bytes);
    staging.result = new (result++) StepResult;
  }
}

DeviceStagings::~DeviceStagings() { driver_.GiveBackPinned(pinned_); }

void DeviceStagings::Collect(Staging& staging) {
  DeviceRun& run = *std::exchange(staging.run, nullptr);
  run.wrong |= staging.result->wrong;
  const int32_t* const tokens = staging.result->tokens;
  run.tokens.insert(run.tokens.end(), tokens, tokens + staging.draws);
}

DeviceInput DeviceStagings::Begin(size_t bucket, DeviceRun& run) {
  now_ = &stagings_[static_cast<size_t>(begun_++ % kStagings)];
  if (now_->run != nullptr) {
    driver_.Wait(now_->mark).IgnoreError();  // its run's Wait reports errors
    Collect(*now_);
  }
  *now_->result = {};
  now_->draws = 0;
  now_->run = &run;
  return DeviceStep::InputOf(bucket, now_->memory);
}

void DeviceStagings::Send(const DeviceInput& input) {
  driver_.CopyIn(now_->memory, input_, input.bytes(input.header()->table_changes));
}

void DeviceStagings::Receive(int64_t draws) {
  now_->draws = draws;
  const auto bytes = static_cast<int64_t>(offsetof(StepResult, tokens)) +
                     draws * static_cast<int64_t>(sizeof(int32_t));
  driver_.CopyOut(&static_cast<const StepHeader*>(input_)->result, now_->result, bytes);
  now_->run->mark = now_->mark = driver_.Mark();
}

absl::Status DeviceStagings::Wait(DeviceRun& run) {
  const absl::Status status = driver_.Wait(run.mark);
  // The oldest first.
  for (int64_t i = 0; i < kStagings; ++i) {
    Staging& staging = stagings_[static_cast<size_t>((begun_ + i) % kStagings)];
    if (staging.run == &run) Collect(staging);
  }
  return status;
}

}  // namespace mnemon
