// SPDX-License-Identifier: MIT
#include "server/service/service.h"

#include <cmath>
#include <system_error>

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
    : access_log_(options.observer),
      idle_timeout_(options.idle_timeout),
      own_attended_(Clock::Real(), kIdlePeriod),
      attended_(options.attended != nullptr ? *options.attended : own_attended_),
      open_calls_(attended_),
      admission_(options.max_calls_per_second, Clock::Real()),
      services_{.engine = engine,
                .calls = open_calls_,
                .admission = admission_,
                .handlers = handlers_},
      drain_(engine, open_calls_, [this] { EndIdleCalls(); }) {}

void Service::EndIdleCalls() {
  attended_.Attend();
  open_calls_.EndIdle(idle_timeout_, engine_errors::CallerIdle(idle_timeout_));
}

}  // namespace mnemon
