// SPDX-License-Identifier: MIT
// Permits to run, and the queue of the calls of one model that wait for one.
//
// At most Options::running calls have a permit; others wait in order of arrival. A call
// whose caller does not read or send lends its permit to one that waits. While a call
// with a permit waits for blocks of state, no other gets one.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>

#include "absl/functional/function_ref.h"
#include "base/clock.h"
#include "server/admission/load_estimate.h"

namespace mnemon {

// What the queue knows of one call. Guarded by the mutex of the queue's owner until the
// call has a permit.
struct AdmissionTicket {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  bool named = false;           // the call holds a session with a name
  int64_t input_bytes = 0;      // its part of Options::queue_bytes
  LoadEstimate::Work expected;  // what it is expected to compute
  bool waiting = false;         // for a permit, in the queue
  // Its node while it does not wait, and its place.
  std::list<AdmissionTicket*> queue_node{this};
  std::list<AdmissionTicket*>::iterator queue_at = queue_node.begin();
};

// All methods are called with the mutex of the owner held, unless they say otherwise.
// None but the constructor needs memory.
class AdmissionQueue {
 public:
  using Duration = LoadEstimate::Duration;
  using Time = std::chrono::steady_clock::time_point;

  struct Options {
    int32_t running = 1;                    // permits
    int32_t most_lent = 0;                  // permits that stalled calls lend, at most
    int32_t max_queue = 0;                  // calls that wait
    int64_t queue_bytes = 0;                // of their input
    std::chrono::milliseconds max_wait{0};  // that a call is expected to wait
    int64_t chunk = 1;                      // tokens of a prompt that one step computes
    int64_t step_tokens = 1;                // tokens of a step, over all calls
    const Clock* clock = nullptr;           // outlives the queue
  };
  explicit AdmissionQueue(const Options& options)
      : options_(options), estimate_(options.chunk, options.step_tokens) {}

  enum class Verdict {
    kStarts,     // it has a permit now
    kWaits,      // it is in the queue
    kQueueFull,  // refused: no room by calls, bytes or expected wait
    kTooLate,    // refused: it would end after its deadline
  };
  // Sets `expected` and gives the ticket a permit or a place in the queue, or refuses
  // it. The call computes so many tokens of prompt and generates so many at most.
  Verdict Enter(AdmissionTicket& ticket, int64_t prompt_tokens, int64_t max_tokens);
  // The caller of a waiting call sends more. False: the queue has no room for it.
  bool AddInput(AdmissionTicket& ticket, int64_t bytes, int64_t tokens);
  // Takes a waiting ticket out.
  void Leave(AdmissionTicket& ticket);

  // What has become of the calls with a permit.
  struct Running {
    LoadEstimate::Load load;           // of those that run
    int64_t starting = 0;              // those that wait for blocks
    LoadEstimate::Work starting_work;  // of these
  };
  // After a round: so many permits come back, `named` of them from calls with a
  // session, and so many calls are stalled. `handed`: the load of calls with a permit
  // that `running` does not know yet.
  void EndRound(int32_t permits, int32_t named, int64_t stalled, const Running& running,
                const LoadEstimate::Load& handed);
  // Calls `visit` for each waiting ticket that leaves the queue: it has a permit now,
  // or is refused because it would end after its deadline. Now and then the refused are
  // those whose turn has not come yet, too.
  void StartWaiting(absl::FunctionRef<void(AdmissionTicket&, bool starts)> visit);
  // Calls `visit` for every waiting ticket and takes it out.
  void Clear(absl::FunctionRef<void(AdmissionTicket&)> visit);

  // Measurements of the runner: see LoadEstimate.
  void RecordStep(Duration interval, int64_t tokens) {
    estimate_.RecordStep(interval, tokens);
  }
  void RecordEnd(int64_t generated) { estimate_.RecordEnd(generated); }
  // Changed by the runner's thread alone, but for RecordTurn; that thread may read it
  // without the mutex.
  const LoadEstimate& estimate() const { return estimate_; }

  bool empty() const { return waiting_ == 0; }
  int64_t waiting() const { return waiting_; }              // calls
  int64_t waiting_named() const { return waiting_named_; }  // of them, with a session
  int32_t permits() const { return permits_; }
  int32_t permits_named() const { return permits_named_; }
  // Whether calls with a permit wait for blocks.
  bool blocked() const { return running_.starting > 0; }
  bool PermitFree() const;
  // Whether the queue has no room for a call with this input.
  bool Full(int64_t input_bytes) const;
  // Whether a call that starts now would end after its deadline.
  bool TooLate(const AdmissionTicket& ticket) const;
  // That a call which comes now waits.
  Duration WaitTime() const { return estimate_.WaitTime(Before(), Load()); }
  // Until the next running call ends, and until one does on average.
  Duration TimeToNextEnd() const { return estimate_.WaitTime({}, Load()); }
  Duration TimeLeft() const { return estimate_.TimeLeft(Load()); }

 private:
  void Start(AdmissionTicket& ticket);
  bool TooLate(const AdmissionTicket& ticket, Duration takes) const;
  LoadEstimate::Load Load() const;
  // Work of calls that start before one that would join the queue now.
  LoadEstimate::Work Before() const;

  const Options options_;
  LoadEstimate estimate_;
  std::list<AdmissionTicket*> queue_;
  int64_t waiting_ = 0;
  int64_t waiting_named_ = 0;
  LoadEstimate::Work waiting_work_;
  int64_t waiting_bytes_ = 0;
  int32_t permits_ = 0;
  int32_t permits_named_ = 0;
  int32_t lent_ = 0;           // of permits_, by stalled calls
  Running running_;            // as of the last round
  LoadEstimate::Load handed_;  // of calls that got a permit since
  Time late_checked_;          // when waiting calls were last asked for that
};

}  // namespace mnemon
