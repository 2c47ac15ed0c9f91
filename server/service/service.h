// SPDX-License-Identifier: MIT
// The service layer of a server. Doors turn what their callers send into messages of
// mnemon.v1, begin calls with the methods of methods.h, and turn messages and errors
// back.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "base/attended_clock.h"
#include "server/service/access_record.h"
#include "server/service/call_services.h"
#include "server/service/drain.h"

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

// Safe for concurrent use, but for the destructor. REQUIRES there: no call is open.
class Service {
 public:
  // `engine` outlives the service. INVALID_ARGUMENT names an option; RESOURCE_EXHAUSTED
  // when there is no thread.
  static absl::StatusOr<std::unique_ptr<Service>> Create(Engine& engine,
                                                         const ServiceOptions& options);

  const CallServices& parts() const { return services_; }
  const AccessLog& access_log() const { return access_log_; }

  // Ends the calls whose callers have not read, or not opened their Score call, for
  // idle_timeout, with ABORTED, CALLER_IDLE. To be called every kIdlePeriod, or more
  // often: a longer time counts as one period, since the server may not have run.
  static constexpr std::chrono::milliseconds kIdlePeriod{250};
  void EndIdleCalls();
  // Calls that have not ended.
  size_t open_calls() const { return open_calls_.size(); }

  // The engine takes no new work once a drain has begun.
  Drain& drain() { return drain_; }

 private:
  Service(Engine& engine, const ServiceOptions& options);

  const AccessLog access_log_;
  const std::chrono::milliseconds idle_timeout_;
  AttendedClock own_attended_;
  AttendedClock& attended_;
  OpenCalls open_calls_;
  Admission admission_;
  HandlerThreads handlers_;
  const CallServices services_;
  Drain drain_;
};

}  // namespace mnemon
