// SPDX-License-Identifier: MIT
#include "server/service/handler_threads.h"

#include <chrono>
#include <utility>

#include "base/out_of_memory.h"
#include "server/requests/engine_errors.h"
#include "server/waiting/waiters.h"

namespace mnemon {

void HandlerThreads::Run(std::function<void(const absl::Status& turn)> body) {
  using SteadyClock = std::chrono::steady_clock;
  const auto latest = SteadyClock::now() + Waiters::kBound;
  threads_.Post(MakeCallback([latest, body = std::move(body)] {
    body(SteadyClock::now() <= latest ? absl::OkStatus()
                                      : CatchOutOfMemory({}, engine_errors::NoAnswer));
  }));
}

}  // namespace mnemon
