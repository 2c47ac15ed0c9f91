// SPDX-License-Identifier: MIT
// Waits for the answer of an asynchronous call of an engine.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "tests/fakes/patience.h"

namespace mnemon {

// What `begin` passes to the function that it gets, or the error that it returns; fails
// after a minute.
template <class T, class Begin>
absl::StatusOr<T> AwaitAnswer(const Begin& begin) {
  auto answer = std::make_shared<std::promise<absl::StatusOr<T>>>();
  auto future = answer->get_future();
  const absl::Status status =
      begin([answer](absl::StatusOr<T> made) { answer->set_value(std::move(made)); });
  if (!status.ok()) return status;
  if (future.wait_for(kPatience) != std::future_status::ready) {
    return absl::DeadlineExceededError("no answer");
  }
  return future.get();
}

}  // namespace mnemon
