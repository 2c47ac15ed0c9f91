// SPDX-License-Identifier: MIT
// An observer that keeps the records of all calls, except those with which a server
// probes its own port once a second (PortProbe): they ask for the health of "".
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/service/access_record.h"

namespace mnemon {

// Safe for concurrent use.
class ObservedCalls final : public CallObserver {
 public:
  void OnCallStarted(const std::string& method) override {
    std::lock_guard lock(mutex_);
    ++started_[method];
  }
  void OnCallEnded(const AccessRecord& record) override {
    const bool probe =
        record.method == "grpc.health.v1.Health/Check" && record.received_bytes == 0;
    if (probe) return;
    std::lock_guard lock(mutex_);
    ended_.push_back(record);
    thread_ = std::this_thread::get_id();
  }

  std::map<std::string, int> Started() const {
    std::lock_guard lock(mutex_);
    return started_;
  }
  std::vector<AccessRecord> Ended() const {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  // Thread of the last call that ended.
  std::thread::id thread() const {
    std::lock_guard lock(mutex_);
    return thread_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> started_;  // guarded by mutex_
  std::vector<AccessRecord> ended_;     // guarded by mutex_
  std::thread::id thread_;              // guarded by mutex_
};

}  // namespace mnemon
