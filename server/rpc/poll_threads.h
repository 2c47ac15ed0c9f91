// SPDX-License-Identifier: MIT
// Threads that read the connections of a gRPC server, beside the few of gRPC itself.
//
// A thread of gRPC that has begun to read a connection goes on while bytes are there,
// and of those that gRPC 1.51 starts, one for two cores and two at least, each polls
// sockets as well as running the callbacks of calls: peers that send without a pause on
// two connections would keep all others waiting. With threads of their own for reading,
// the scheduler of the system divides time between connections, and callbacks are left
// to gRPC's threads.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include "absl/status/status.h"

namespace mnemon {

// AddTo before gRPC's BuildAndStart, Start after it, Stop after the server's shutdown,
// each once by one thread. Run is safe for concurrent use between Start and Stop.
class PollThreads {
 public:
  ~PollThreads() { Stop(); }

  void AddTo(grpc::ServerBuilder& builder);
  // RESOURCE_EXHAUSTED when there are too few threads.
  absl::Status Start();
  // Has one of the threads call `task`, which may go on to read a connection and must
  // not throw.
  void Run(std::function<void()> task);
  // Tasks have run, or have been destroyed, when it returns.
  void Stop();

 private:
  void Poll();

  std::unique_ptr<grpc::ServerCompletionQueue> queue_;  // has an entry for each task
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace mnemon
