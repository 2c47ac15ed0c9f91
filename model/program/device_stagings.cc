// SPDX-License-Identifier: MIT
#include "model/program/device_stagings.h"

#include <utility>

#include "model/device/device_tables.h"
#include "model/program/device_step.h"

namespace mnemon {

DeviceStagings::DeviceStagings(DeviceDriver& driver, void* input)
    : driver_(driver), input_(input) {
  constexpr auto kWrong = static_cast<int64_t>(sizeof(uint32_t));
  const int64_t bytes = DeviceStep::InputOf(DeviceStep::BucketOf(kPieceRows), nullptr)
                            .bytes(DeviceTables::kMostChanges);
  pinned_ = driver.TakePinned(kStagings * (bytes + kWrong));
  auto* memory = static_cast<char*>(pinned_);
  auto* wrong = reinterpret_cast<uint32_t*>(memory + kStagings * bytes);
  for (Staging& staging : stagings_) {
    staging.memory = std::exchange(memory, memory + bytes);
    staging.wrong = wrong++;
  }
}

DeviceStagings::~DeviceStagings() { driver_.GiveBackPinned(pinned_); }

void DeviceStagings::Collect(Staging& staging) {
  staging.run->wrong |= *staging.wrong;
  staging.run = nullptr;
}

DeviceInput DeviceStagings::Begin(size_t bucket, DeviceRun& run) {
  now_ = &stagings_[static_cast<size_t>(begun_++ % kStagings)];
  if (now_->run != nullptr) {
    driver_.Wait(now_->mark).IgnoreError();  // its run's Wait says so
    Collect(*now_);
  }
  *now_->wrong = 0;
  now_->run = &run;
  return DeviceStep::InputOf(bucket, now_->memory);
}

void DeviceStagings::Send(const DeviceInput& input) {
  driver_.CopyIn(now_->memory, input_, input.bytes(input.header()->table_changes));
}

void DeviceStagings::Receive() {
  driver_.CopyOut(&static_cast<const StepHeader*>(input_)->wrong, now_->wrong,
                  sizeof(*now_->wrong));
  now_->run->mark = now_->mark = driver_.Mark();
}

absl::Status DeviceStagings::Wait(DeviceRun& run) {
  const absl::Status status = driver_.Wait(run.mark);
  for (Staging& staging : stagings_) {
    if (staging.run == &run) Collect(staging);
  }
  return status;
}

}  // namespace mnemon
