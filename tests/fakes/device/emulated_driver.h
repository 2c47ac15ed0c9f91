// SPDX-License-Identifier: MIT
// A driver of an emulated device (device_emulator.h). It is late: nothing is done
// before somebody waits for it. Its memory is hidden from the host: nobody can read or
// write it outside of queued work, each piece has inaccessible pages next to it, and
// new memory holds garbage. Launches of one call have 1 to 8 blocks, for any requested
// number, and threads continue in a random order.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "model/compute/device/device_driver.h"

namespace mnemon {

class EmulatedDriver final : public DeviceDriver {
 public:
  struct Options {
    int processors = 3;
    int64_t shared_bytes = 48 << 10;
    int64_t whole_step_rows = 4;
    int64_t memory = int64_t{1} << 40;  // bytes of it
    uint64_t seed = 1;
  };
  explicit EmulatedDriver(const Options& options);
  // REQUIRES: all memory was freed.
  ~EmulatedDriver() override;

  // Makes the next work fail: the device is lost. `tries`: number of Restarts that
  // fail, too.
  void Lose(int tries = 0);
  // Makes one allocation fail after `after` more that succeed; below 0: none.
  void FailTake(int after);
  // Bytes of allocated or mapped memory.
  int64_t used() const;

  const DeviceLimits& limits() const override { return limits_; }
  bool lost() const override;
  int64_t free_bytes() override { return options_.memory - used(); }
  void* Take(int64_t bytes) override;
  void GiveBack(void* memory) override;
  char* TakeAddresses(int64_t bytes) override;
  void GiveBackAddresses(char* begin) override;
  void Map(char* begin, int64_t bytes) override;
  void Unmap(char* begin, int64_t bytes) override;
  void* TakePinned(int64_t bytes) override;
  void GiveBackPinned(void* memory) override;
  void CopyIn(const void* host, void* device, int64_t bytes) override;
  void CopyOut(const void* device, void* host, int64_t bytes) override;
  void Copy(const void* from, void* to, int64_t bytes) override;
  void Fill(float* to, int64_t count, float value) override;
  void Launch(StepKernel kernel, const LaunchShape& shape,
              const StepLaunch& launch) override;
  void Launch(const DeviceGraph& graph) override;
  void BeginGraph() override;
  std::unique_ptr<DeviceGraph> EndGraph() override;
  int64_t Mark() override;
  absl::Status Wait(int64_t mark) override;
  absl::Status Restart() override;

 private:
  using Work = std::function<void()>;
  struct Kernel {
    StepKernel kernel;
    LaunchShape shape;
    StepLaunch launch;
  };
  struct Graph;
  // Addresses between two inaccessible pages.
  struct Region {
    char* pages = nullptr;
    int64_t size = 0;
    std::map<char*, int64_t> mapped;  // bytes from there on
  };

  void Queue(Work work);
  void Run(const Kernel& kernel);
  // REQUIRES: mutex_ is held.
  char* Reserve(int64_t bytes);
  void MapLocked(char* begin, int64_t bytes);
  void Remove(char* begin);
  Region& RegionOf(char* address);
  void Show(bool visible);
  absl::Status Lost() const;

  const Options options_;
  const DeviceLimits limits_;

  mutable std::mutex mutex_;  // guards what follows; held while work is done
  std::map<char*, Region> regions_;
  std::map<void*, char*> taken_;  // the region of each piece
  std::map<void*, std::vector<char>> pinned_;
  std::deque<Work> queue_;
  std::unique_ptr<Graph> graph_;  // between BeginGraph and EndGraph
  int64_t queued_ = 0;
  int64_t executed_ = 0;
  int64_t used_ = 0;
  int takes_left_ = -1;  // before one fails; below 0: none will
  bool lose_ = false;
  bool lost_ = false;
  int restarts_to_fail_ = 0;
  std::mt19937_64 random_;
};

}  // namespace mnemon
