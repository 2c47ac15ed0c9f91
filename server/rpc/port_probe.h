// SPDX-License-Identifier: MIT
// The liveness of a server: a thread connects to its port like any client and asks for
// health.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <grpcpp/client_context.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/transport/connection_table.h"

namespace mnemon {

class PortProbe {
 public:
  struct Options {
    std::chrono::milliseconds period{1000};
    std::chrono::milliseconds timeout{3000};  // of one attempt
    // Failed attempts in a row before the server counts as unreachable, and before each
    // call of `reopen`.
    int unreachable_after = 3;
    // And before `give_up`; only those count for which there was a descriptor.
    int give_up_after = 60;
    // Called on the probe's thread; may be null.
    std::function<void()> reopen;
    std::function<void(const std::string& why)> give_up;
  };

  // `address` is where the server listens; its connection counts to no limit of
  // `table`, which outlives the probe. RESOURCE_EXHAUSTED when there is no thread.
  static absl::StatusOr<std::unique_ptr<PortProbe>> Start(
      const sockaddr_storage& address, ConnectionTable& table, const Options& options);
  ~PortProbe() { Stop(); }

  // Breaks off an attempt that is under way; there is none after it. By one thread.
  void Stop();
  // Empty, or why the port cannot be reached. Safe for concurrent use.
  std::string WhyUnreachable() const;

 private:
  PortProbe(const sockaddr_storage& address, ConnectionTable& table,
            const Options& options);
  void Run();
  absl::Status Attempt();
  // False: it is stopping.
  bool SetAttempt(grpc::ClientContext* context);
  void Record(const absl::Status& status);

  const sockaddr_storage address_;
  ConnectionTable& table_;
  const Options options_;

  mutable std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;                   // guarded by mutex_
  grpc::ClientContext* attempt_ = nullptr;  // that is under way; guarded by mutex_
  std::string why_;  // of the last failure, once unreachable; guarded by mutex_

  // Failed attempts in a row, and those of them that count for give_up; of the thread.
  int failures_ = 0;
  int hopeless_ = 0;

  std::thread thread_;
};

}  // namespace mnemon
