// SPDX-License-Identifier: MIT
// The service layer of a server: all that a call needs whichever door it comes by.
// Doors turn what their callers send into messages of mnemon.v1, begin calls with the
// methods of unary_methods.h and stream_handlers.h, and turn messages and errors back.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "base/attended_clock.h"
#include "server/engine/engine.h"
#include "server/service/access_log.h"
#include "server/service/admission.h"
#include "server/service/call_services.h"
#include "server/service/drain.h"
#include "server/service/handler_threads.h"
#include "server/service/open_calls.h"

namespace mnemon {

struct ServiceOptions {
  std::shared_ptr<CallObserver> observer;  // of every call; may be null
  // Calls of Generation and CreateSession taken per second, over all callers; more are
  // refused with RESOURCE_EXHAUSTED and the time to wait. 0 = any number.
  double max_calls_per_second = 0;
  // How long a call may wait for its caller to send the first message of Score, or to
  // read what is sent.
  std::chrono::milliseconds idle_timeout{30000};
  // The time of such waits, which EndIdleCalls keeps going: it outlives the service.
  // Null: a clock of the service's own.
  AttendedClock* attended = nullptr;
};

// Safe for concurrent use, but for the destructor.
class Service {
 public:
  // `engine` outlives the service. INVALID_ARGUMENT names an option; RESOURCE_EXHAUSTED
  // when there is no thread.
  static absl::StatusOr<std::unique_ptr<Service>> Create(Engine& engine,
                                                         const ServiceOptions& options);
  // REQUIRES: no call is open.
  ~Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  Engine& engine() const { return engine_; }
  const CallServices& parts() const { return services_; }
  const AccessLog& access_log() const { return access_log_; }

  // Ends the calls whose callers have not read, or not opened their Score call, for
  // idle_timeout, with ABORTED, CALLER_IDLE. To be called every kIdlePeriod, or more
  // often: where it is called later, only so much of the time before counts, since the
  // server may not have run.
  static constexpr std::chrono::milliseconds kIdlePeriod{250};
  void EndIdleCalls();
  // Calls that have not ended.
  size_t open_calls() const { return open_calls_.size(); }

  // The engine takes no new work once a drain has begun.
  Drain& drain() { return drain_; }
  // `tell` is called when a drain begins, before its Begin returns; empty: nobody is
  // told. One at a time.
  void TellOfDrain(std::function<void()> tell);

 private:
  Service(Engine& engine, const ServiceOptions& options);
  void Refuse();
  void SaveSessions(std::chrono::steady_clock::time_point deadline);

  Engine& engine_;
  const AccessLog access_log_;
  const std::chrono::milliseconds idle_timeout_;
  AttendedClock own_attended_;
  AttendedClock& attended_;
  OpenCalls open_calls_;
  Admission admission_;
  HandlerThreads handlers_;
  const CallServices services_;
  std::mutex tell_mutex_;
  std::function<void()> tell_;  // guarded by tell_mutex_
  Drain drain_;
};

}  // namespace mnemon
