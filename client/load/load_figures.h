// SPDX-License-Identifier: MIT
// The figures of a load test, accumulated call by call in bounded memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/load/call_times.h"
#include "client/load/distribution.h"
#include "client/load/goodput.h"

namespace mnemon::client {

// A refusal: RESOURCE_EXHAUSTED with a retry delay.
bool IsRefusal(const absl::Status& status);

// Not safe for concurrent use.
class LoadFigures {
 public:
  explicit LoadFigures(const GoodputLimits& limits) : limits_(limits) {}

  // Adds a call that ended OK.
  void AddCompleted(const CallTimes& times, const GenerateResult& result);
  // Adds a call that ended with an error.
  void AddFailed(const absl::Status& status);
  // Adds a call that was cancelled because the run ends.
  void AddUnfinished() { ++unfinished_; }
  // Adds gaps between tokens of any call.
  void AddGaps(std::span<const float> seconds);
  // Adds how late a call was sent, although the client could have sent it in time.
  void AddLateness(double seconds) { lateness_.Add(seconds); }
  // Counts a call sent late because the maximum number of calls was running.
  void AddWaited() { ++waited_; }
  // Counts a call that was due but not sent before the run ended.
  void AddUnsent() { ++unsent_; }

  const GoodputLimits& limits() const { return limits_; }
  int64_t completed() const { return completed_; }
  int64_t good() const { return good_; }  // completed, and within the limits
  int64_t refused() const { return refused_; }
  int64_t failed() const { return failed_; }  // without refusals
  int64_t unfinished() const { return unfinished_; }
  int64_t waited() const { return waited_; }
  int64_t unsent() const { return unsent_; }
  // Totals over completed calls.
  int64_t generated_tokens() const { return generated_tokens_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t resumed_tokens() const { return resumed_tokens_; }
  const Distribution& ttft() const { return ttft_; }
  const Distribution& itl() const { return itl_; }
  const Distribution& tpot() const { return tpot_; }
  const Distribution& e2e() const { return e2e_; }
  const Distribution& queue() const { return queue_; }
  const Distribution& lateness() const { return lateness_; }
  // Number of errors by code and reason, including refusals. At most 32 kinds; the rest
  // counts as {"OTHER", ""}.
  const std::map<std::pair<std::string, std::string>, int64_t>& errors() const {
    return errors_;
  }

 private:
  GoodputLimits limits_;
  int64_t completed_ = 0;
  int64_t good_ = 0;
  int64_t refused_ = 0;
  int64_t failed_ = 0;
  int64_t unfinished_ = 0;
  int64_t waited_ = 0;
  int64_t unsent_ = 0;
  int64_t generated_tokens_ = 0;
  int64_t prompt_tokens_ = 0;
  int64_t resumed_tokens_ = 0;
  Distribution ttft_;
  Distribution itl_;
  Distribution tpot_;
  Distribution e2e_;
  Distribution queue_;
  Distribution lateness_;
  std::map<std::pair<std::string, std::string>, int64_t> errors_;
};

}  // namespace mnemon::client
