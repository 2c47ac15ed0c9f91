// SPDX-License-Identifier: MIT
// Concurrent Generate calls, and the outcome of each.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/serving/connection.h"
#include "client/load/load.h"

namespace mnemon::serving {

using SteadyClock = std::chrono::steady_clock;
using client::TimePoint;
using Seconds = std::chrono::duration<double>;

// Time limit of waits without a bar: only a hang reaches it.
inline constexpr Seconds kHangs{300};
// Tokens of a call that ends with its scenario.
inline constexpr int64_t kEndless = 1'000'000'000;

// One Generate call as seen by its client. Calls of the load generator have only the
// trace.
struct CallRecord {
  client::CallTrace trace = {};
  std::vector<int32_t> tokens = {};
  int64_t prompt_index = -1;  // PromptFacts.first_index; -1: no PromptFacts came
  int64_t next_index = -1;    // after the last delivered token; -1: none
  bool contiguous = true;     // each index followed the one before

  bool ok() const { return trace.status.ok(); }
  Seconds took() const { return trace.end - trace.begin; }
  // Reason of the error; empty if it has none.
  std::string reason() const;
  // "OK", or the error's reason, or its code.
  std::string outcome() const;
};

struct CallOptions {
  Seconds deadline{600};
  // Messages after which the caller stops reading; -1: it reads all.
  int64_t read_at_most = -1;
  // Time in which the caller takes a token: it asks for the next message when it has
  // taken all tokens of the last.
  Seconds token_time{0};
};

// Safe for concurrent use. The destructor ends all calls.
class Calls {
 public:
  using OnEnd = std::function<void(const CallRecord&)>;

  Calls();
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // Does not block. `on_end` is called once, on a thread of gRPC, before the call
  // counts as ended; it must not block.
  void Start(Connection& connection, const v1::GenerateRequest& request,
             const CallOptions& options, OnEnd on_end = nullptr);
  int64_t running() const;
  // Messages received by all calls, and calls that have received a token.
  int64_t messages() const;
  int64_t with_tokens() const;
  // Waits until none runs; false if some still do after `timeout`.
  bool Wait(Seconds timeout) const;
  void CancelAll();
  // Takes the records of the calls that have ended, in the order of their ends.
  std::vector<CallRecord> Take();

 private:
  class Call;
  void OnEnded(Call* call, CallRecord record);

  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  std::unordered_map<Call*, std::unique_ptr<Call>>
      calls_;                        // running; guarded by mutex_
  std::vector<CallRecord> records_;  // guarded by mutex_
  std::atomic<int64_t> messages_{0};
  std::atomic<int64_t> with_tokens_{0};
};

}  // namespace mnemon::serving
