// SPDX-License-Identifier: MIT
// What is to be known of every gRPC call, whatever its method does.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace mnemon {

struct CallRecord {
  std::string method;      // "mnemon.v1.Generation/Generate"; "other" when unknown
  std::string request_id;  // as in the log and in the trailer x-request-id
  std::string status;      // "OK", "NOT_FOUND", ...
  std::chrono::duration<double> took{0};
  int64_t sent_bytes = 0;  // of messages
  int64_t received_bytes = 0;
};

// Both may be empty; called from any thread, must neither block nor throw.
struct CallWatch {
  std::function<void(const std::string& method)> started;
  std::function<void(const CallRecord&)> ended;
};

}  // namespace mnemon
