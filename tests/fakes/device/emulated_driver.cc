// SPDX-License-Identifier: MIT
#include "tests/fakes/device/emulated_driver.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "model/operations/cuda/step_kernel.h"
#include "tests/fakes/device/device_emulator.h"

namespace mnemon {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kAlignment = 256;
constexpr int kMostBlocks = 8;

int64_t Whole(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

template <StepCallKind kind>
void RunOne(const StepLaunch& launch) {
  device::OneCall<kind>(launch);
}

using KernelFunction = void (*)(const StepLaunch&);

// Indexed by StepCallKind.
constexpr KernelFunction kOneCall[] = {RunOne<StepCallKind::kPrepare>,
                                       RunOne<StepCallKind::kEmbed>,
                                       nullptr,
                                       RunOne<StepCallKind::kPrepareRows>,
                                       RunOne<StepCallKind::kTiledLinear>,
                                       RunOne<StepCallKind::kTurn>,
                                       RunOne<StepCallKind::kAppend>,
                                       RunOne<StepCallKind::kAttend>,
                                       RunOne<StepCallKind::kFastWeights>,
                                       RunOne<StepCallKind::kMix>,
                                       RunOne<StepCallKind::kNorm>,
                                       RunOne<StepCallKind::kKeep>,
                                       RunOne<StepCallKind::kSample>,
                                       RunOne<StepCallKind::kNextWave>};

}  // namespace

struct EmulatedDriver::Graph final : DeviceGraph {
  std::vector<Kernel> kernels;
};

EmulatedDriver::EmulatedDriver(const Options& options)
    : options_(options),
      limits_{.name = "an emulated device",
              .processors = options.processors,
              .shared_bytes = options.shared_bytes,
              .whole_step_rows = options.whole_step_rows},
      random_(options.seed) {}

EmulatedDriver::~EmulatedDriver() {
  // A lost device has given nothing back since then.
  if (Wait(Mark()).ok()) MNEMON_CHECK(regions_.empty() && pinned_.empty());
  while (!regions_.empty()) Remove(regions_.begin()->first);
}

void EmulatedDriver::Lose(int tries) {
  const std::lock_guard lock(mutex_);
  lose_ = true;
  restarts_to_fail_ = tries;
}

void EmulatedDriver::FailTake(int after) {
  const std::lock_guard lock(mutex_);
  takes_left_ = after;
}

int64_t EmulatedDriver::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

bool EmulatedDriver::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

absl::Status EmulatedDriver::Lost() const {
  return MakeError(absl::StatusCode::kUnavailable, "the device was lost",
                   {.reason = "DEVICE_LOST"});
}

char* EmulatedDriver::Reserve(int64_t bytes) {
  if (lost_) throw std::bad_alloc();
  Region region{.size = Whole(bytes, kPage) + 2 * kPage};
  void* const pages = mmap(nullptr, static_cast<size_t>(region.size), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  MNEMON_CHECK(pages != MAP_FAILED);
  region.pages = static_cast<char*>(pages);
  char* const begin = region.pages + kPage;
  regions_.emplace(begin, std::move(region));
  return begin;
}

EmulatedDriver::Region& EmulatedDriver::RegionOf(char* address) {
  const auto next = regions_.upper_bound(address);
  MNEMON_CHECK(next != regions_.begin());
  Region& region = std::prev(next)->second;
  MNEMON_CHECK(address < region.pages + region.size - kPage);
  return region;
}

void EmulatedDriver::MapLocked(char* begin, int64_t bytes) {
  if (lost_ || used_ + bytes > options_.memory || takes_left_-- == 0) {
    throw std::bad_alloc();
  }
  takes_left_ = std::max(takes_left_, -1);
  Region& region = RegionOf(begin);
  MNEMON_CHECK(begin + bytes <= region.pages + region.size - kPage);
  MNEMON_CHECK(region.mapped.emplace(begin, bytes).second);
  const auto size = static_cast<size_t>(bytes);
  MNEMON_CHECK(mprotect(begin, size, PROT_READ | PROT_WRITE) == 0);
  memset(begin, 0xFF, size);  // NaN, and addresses of nothing
  MNEMON_CHECK(mprotect(begin, size, PROT_NONE) == 0);
  used_ += bytes;
}

void EmulatedDriver::Remove(char* begin) {
  const auto at = regions_.find(begin);
  if (at == regions_.end()) return;  // from before a Restart
  for (const auto& [address, bytes] : at->second.mapped) used_ -= bytes;
  munmap(at->second.pages, static_cast<size_t>(at->second.size));
  regions_.erase(at);
}

void* EmulatedDriver::Take(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  char* const begin = Reserve(bytes);
  const int64_t pages = Whole(bytes, kPage);
  try {
    MapLocked(begin, pages);
  } catch (...) {
    Remove(begin);
    throw;
  }
  // Its end as near as possible to the page after it.
  void* const piece = begin + pages - Whole(bytes, kAlignment);
  taken_[piece] = begin;
  return piece;
}

void EmulatedDriver::GiveBack(void* memory) {
  Queue([this, memory] {
    const auto at = taken_.find(memory);
    if (at == taken_.end()) return;
    Remove(at->second);
    taken_.erase(at);
  });
}

char* EmulatedDriver::TakeAddresses(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return Reserve(bytes);
}

void EmulatedDriver::GiveBackAddresses(char* begin) {
  Queue([this, begin] { Remove(begin); });
}

void EmulatedDriver::Map(char* begin, int64_t bytes) {
  MNEMON_CHECK(bytes > 0 && bytes % kUnit == 0);
  const std::lock_guard lock(mutex_);
  for (int64_t at = 0; at < bytes; at += kUnit) MapLocked(begin + at, kUnit);
}

void EmulatedDriver::Unmap(char* begin, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (lost_) return;
  Region& region = RegionOf(begin);
  for (int64_t at = 0; at < bytes; at += kUnit) {
    MNEMON_CHECK(region.mapped.erase(begin + at) == 1);
  }
  madvise(begin, static_cast<size_t>(bytes), MADV_DONTNEED);
  used_ -= bytes;
}

void* EmulatedDriver::TakePinned(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::vector<char> memory(static_cast<size_t>(bytes));
  void* const begin = memory.data();
  pinned_[begin] = std::move(memory);
  return begin;
}

void EmulatedDriver::GiveBackPinned(void* memory) {
  const std::lock_guard lock(mutex_);
  MNEMON_CHECK(pinned_.erase(memory) == 1);
}

void EmulatedDriver::Queue(Work work) {
  const std::lock_guard lock(mutex_);
  ++queued_;
  queue_.push_back(std::move(work));
}

void EmulatedDriver::CopyIn(const void* host, void* device, int64_t bytes) {
  Queue([=] { memcpy(device, host, static_cast<size_t>(bytes)); });
}

void EmulatedDriver::CopyOut(const void* device, void* host, int64_t bytes) {
  Queue([=] { memcpy(host, device, static_cast<size_t>(bytes)); });
}

void EmulatedDriver::Copy(const void* from, void* to, int64_t bytes) {
  Queue([=] { memcpy(to, from, static_cast<size_t>(bytes)); });
}

void EmulatedDriver::Fill(float* to, int64_t count, float value) {
  Queue([=] { std::fill_n(to, count, value); });
}

void EmulatedDriver::Launch(StepKernel kernel, const LaunchShape& shape,
                            const StepLaunch& launch) {
  if (graph_ != nullptr) {
    graph_->kernels.push_back({kernel, shape, launch});
    return;
  }
  Queue([this, it = Kernel{kernel, shape, launch}] { Run(it); });
}

void EmulatedDriver::Launch(const DeviceGraph& graph) {
  Queue([this, &it = static_cast<const Graph&>(graph)] {
    for (const Kernel& kernel : it.kernels) Run(kernel);
  });
}

void EmulatedDriver::BeginGraph() {
  MNEMON_CHECK(graph_ == nullptr);
  graph_ = std::make_unique<Graph>();
}

std::unique_ptr<DeviceGraph> EmulatedDriver::EndGraph() { return std::move(graph_); }

void EmulatedDriver::Run(const Kernel& it) {
  DeviceLaunch launch{.blocks = it.shape.blocks,
                      .threads = it.shape.threads,
                      .shared_bytes = it.shape.shared_bytes};
  MNEMON_CHECK(it.shape.shared_bytes <= limits_.shared_bytes);
  if (it.kernel == StepKernel::kWholeStep) {
    MNEMON_CHECK(launch.blocks <= limits_.processors);
    return RunOnDevice(launch, random_(), [&] { device::WholeStep(it.launch); });
  }
  launch.blocks =
      std::min(launch.blocks, 1 + static_cast<int>(random_() % kMostBlocks));
  const KernelFunction run = kOneCall[static_cast<size_t>(it.launch.call.kind)];
  RunOnDevice(launch, random_(), [&] { run(it.launch); });
}

int64_t EmulatedDriver::Mark() {
  const std::lock_guard lock(mutex_);
  return queued_;
}

void EmulatedDriver::Show(bool visible) {
  for (const auto& [begin, region] : regions_) {
    for (const auto& [address, bytes] : region.mapped) {
      MNEMON_CHECK(mprotect(address, static_cast<size_t>(bytes),
                            visible ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
    }
  }
}

absl::Status EmulatedDriver::Wait(int64_t mark) {
  const std::lock_guard lock(mutex_);
  if (executed_ < mark && !lost_) {
    Show(true);
    for (; executed_ < mark && !lost_; ++executed_) {
      const Work work = std::move(queue_.front());
      queue_.pop_front();
      lost_ = lose_;
      if (!lost_) work();
    }
    Show(false);
  }
  return lost_ ? Lost() : absl::OkStatus();
}

absl::Status EmulatedDriver::Restart() {
  const std::lock_guard lock(mutex_);
  if (restarts_to_fail_-- > 0) return Lost();
  restarts_to_fail_ = 0;
  queue_.clear();
  executed_ = queued_;
  while (!regions_.empty()) Remove(regions_.begin()->first);
  taken_.clear();
  lose_ = lost_ = false;
  return absl::OkStatus();
}

}  // namespace mnemon
