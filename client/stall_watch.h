// SPDX-License-Identifier: MIT
// A limit on the time that a stream waits for its server.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include <grpcpp/client_context.h>

namespace mnemon::client {

// Cancels a call if one step of it has waited longer than a limit. Time between steps
// belongs to the caller and does not count. One thread makes the steps.
class StallWatch {
 public:
  StallWatch(grpc::ClientContext& call, std::chrono::milliseconds limit);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  // Runs `step`, which waits for the server, and returns its result.
  template <class Step>
  auto Bound(Step&& step) {
    Begin();
    auto result = step();
    End();
    return result;
  }
  // Whether the call was cancelled.
  bool stalled() const;

 private:
  void Begin();
  void End();
  void Watch();

  grpc::ClientContext& call_;
  const std::chrono::milliseconds limit_;
  mutable std::mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;  // guarded by mutex_
  bool stalled_ = false;                                           // guarded by mutex_
  bool over_ = false;                                              // guarded by mutex_
  std::condition_variable changed_;
  std::thread thread_;  // last, since it uses all members
};

}  // namespace mnemon::client
