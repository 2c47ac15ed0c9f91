// SPDX-License-Identifier: MIT
#include "server/service/service.h"

#include <cmath>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/requests/engine_errors.h"

namespace mnemon {
namespace {

absl::Status CheckServiceOptions(const ServiceOptions& options) {
  if (options.idle_timeout.count() < 1) {
    return InvalidField("idle_timeout", "idle_timeout must be >= 1 ms");
  }
  if (!std::isfinite(options.max_calls_per_second) ||
      options.max_calls_per_second < 0) {
    return InvalidField("max_calls_per_second",
                        "max_calls_per_second must be finite and >= 0");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Service>> Service::Create(
    Engine& engine, const ServiceOptions& options) {
  MNEMON_RETURN_IF_ERROR(CheckServiceOptions(options));
  std::unique_ptr<Service> service;
  try {
    service.reset(new Service(engine, options));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(StrCat("no thread for calls: ", error.what()));
  }
  MNEMON_RETURN_IF_ERROR(service->drain_.Start());
  return service;
}

Service::Service(Engine& engine, const ServiceOptions& options)
    : engine_(engine),
      access_log_(options.observer),
      idle_timeout_(options.idle_timeout),
      own_attended_(Clock::Real(), kIdlePeriod),
      attended_(options.attended != nullptr ? *options.attended : own_attended_),
      open_calls_(attended_),
      admission_(options.max_calls_per_second, Clock::Real()),
      services_{.engine = engine,
                .calls = open_calls_,
                .admission = admission_,
                .handlers = handlers_},
      drain_(open_calls_, {.refuse = [this] { Refuse(); },
                           .end_idle = [this] { EndIdleCalls(); },
                           .save = [this](auto deadline) { SaveSessions(deadline); },
                           .waiting = [this] { return TextOf(engine_.waiters()); }}) {}

void Service::EndIdleCalls() {
  attended_.Attend();
  open_calls_.EndIdle(idle_timeout_, engine_errors::CallerIdle(idle_timeout_));
}

void Service::TellOfDrain(std::function<void()> tell) {
  std::lock_guard lock(tell_mutex_);
  tell_ = std::move(tell);
}

void Service::Refuse() {
  engine_.Drain();
  std::lock_guard lock(tell_mutex_);
  if (tell_) tell_();
}

void Service::SaveSessions(std::chrono::steady_clock::time_point deadline) {
  if (engine_.SaveSessions(deadline)) return;
  LogWarning("not all states of sessions were saved: they will be computed again");
}

}  // namespace mnemon
