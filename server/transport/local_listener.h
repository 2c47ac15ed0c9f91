// SPDX-License-Identifier: MIT
// A listener for connections within the process: a socket in the machine's own
// namespace, on which other processes are refused. One that finds no descriptor, or no
// memory, waits until there is some.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace mnemon {

// For one thread, which may be any; its own thread calls OnAccept.
class LocalListener {
 public:
  using OnAccept = std::function<void(Descriptor)>;

  // Listens on the abstract name, 1 to 107 bytes, so that connections wait, and accepts
  // from Start on. RESOURCE_EXHAUSTED when there is no descriptor for it; UNAVAILABLE
  // when the name is in use.
  static absl::StatusOr<std::unique_ptr<LocalListener>> Open(const std::string& name);
  ~LocalListener() { Stop(); }
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

  // Once. RESOURCE_EXHAUSTED when there is no thread.
  absl::Status Start(OnAccept on_accept);
  // No call of OnAccept runs or begins after it, and who connects is refused.
  void Stop();

 private:
  LocalListener(Descriptor socket, Descriptor wake)
      : socket_(std::move(socket)), wake_(std::move(wake)) {}
  void Run();

  Descriptor socket_;      // non-blocking; constant while the thread runs
  const Descriptor wake_;  // an eventfd: readable, the thread ends
  OnAccept on_accept_;     // constant once the thread runs
  std::thread thread_;
};

}  // namespace mnemon
