// SPDX-License-Identifier: MIT
#include "server/admission/load_estimate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <list>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/run/scheduler.h"

namespace mnemon {
namespace {

using Duration = LoadEstimate::Duration;
using Work = LoadEstimate::Work;

constexpr StepBudget kBudget;
constexpr double kForever = std::numeric_limits<double>::infinity();

LoadEstimate MakeEstimate() { return LoadEstimate(kBudget.chunk, kBudget.tokens); }

TEST(LoadEstimate, NothingIsKnownAtFirst) {
  const LoadEstimate estimate = MakeEstimate();
  EXPECT_FALSE(estimate.measured());
  EXPECT_EQ(estimate.WaitTime({.chunks = 100}, {}), Duration(0));
  EXPECT_EQ(estimate.WorkOf(130, 8).steps(), 3 + 8);
  EXPECT_EQ(estimate.WorkOf(0, 1 << 30).steps(), 32);
}

TEST(LoadEstimate, CallsEndAsTheyHaveEnded) {
  LoadEstimate estimate = MakeEstimate();
  for (int i = 0; i < 50; ++i) estimate.RecordEnd(100);
  EXPECT_EQ(estimate.WorkOf(64, 65536).steps(), 101);
  EXPECT_EQ(estimate.WorkOf(64, 20).steps(), 21);
}

TEST(LoadEstimate, LeftIsWhatWasNotComputed) {
  const LoadEstimate estimate = MakeEstimate();
  const Work work = estimate.WorkOf(130, 8);
  EXPECT_EQ(estimate.Left(work, 60).prompt, 70);
  EXPECT_EQ(estimate.Left(work, 60).chunks, 2);
  EXPECT_EQ(estimate.Left(work, 133).tokens(), 5);
  EXPECT_EQ(estimate.Left(work, 200).tokens(), 1);
}

TEST(LoadEstimate, FollowsTheLoad) {
  LoadEstimate estimate = MakeEstimate();
  const Work ten{.generated = 10};
  for (int i = 0; i < 200; ++i) estimate.RecordStep(Duration(0.001), 1);
  EXPECT_NEAR(estimate.RunTime(ten, {}).count(), 0.010, 1e-6);
  for (int i = 0; i < 200; ++i) estimate.RecordStep(Duration(0.005), 1);
  EXPECT_NEAR(estimate.RunTime(ten, {}).count(), 0.050, 1e-4);
}

TEST(LoadEstimate, TimeLeftIsThatOfTheMeanCall) {
  LoadEstimate estimate = MakeEstimate();
  EXPECT_EQ(estimate.TimeLeft({}), Duration(0));
  for (int i = 0; i < 200; ++i) estimate.RecordStep(Duration(0.001), 2);
  EXPECT_EQ(estimate.TimeLeft({}), Duration(0));
  LoadEstimate::Load load;
  load.Add({.generated = 10});
  EXPECT_NEAR(estimate.TimeLeft(load).count(), 0.010, 1e-6);
  load.Add({.generated = 30});
  EXPECT_NEAR(estimate.TimeLeft(load).count(), 0.020, 1e-6);
}

// Prompts of one kind of calls, and what a step takes.
struct Traffic {
  std::string name;
  std::vector<int64_t> prompts;  // drawn with equal chance
  double fixed;                  // seconds per step
  double per_token;
  double slow = 1;  // factor on both, in 3 of 10 seconds
};

// A model runner without threads: the true scheduler, the estimate, and the rules of
// ModelRunner for permits, queue and deadlines. Callers leave at their deadlines.
class Simulation {
 public:
  static constexpr int kPermits = 32;

  explicit Simulation(const Traffic& traffic) : traffic_(traffic) {}

  // Calls per second that end, of callers who wait without end.
  double MeasureCapacity() {
    while (now_ < 30) {
      while (running_.size() < kPermits) Start(Draw(kForever));
      Step();
    }
    const double begin = now_;
    ended_ = 0;
    while (now_ < begin + 100) {
      while (running_.size() < kPermits) Start(Draw(kForever));
      Step();
    }
    return ended_ / (now_ - begin);
  }

  // Calls arrive at random, `rate` per second; each has `patience` seconds.
  void RunOpenLoop(double rate, double patience, double seconds) {
    std::exponential_distribution<double> gap(rate);
    double next = gap(random_);
    while (now_ < seconds) {
      for (; next <= now_; next += gap(random_)) Arrive(Draw(next + patience));
      if (running_.empty()) {
        now_ = next;
        continue;
      }
      Step();
      StartWaiting();
    }
  }

  int admitted() const { return admitted_; }
  int late() const { return late_; }  // of them: ended by their callers, or refused
  int ended() const { return ended_; }
  int refused() const { return refused_; }            // on arrival
  int refused_late() const { return refused_late_; }  // at their turn
  // Seconds that queued calls waited, and were expected to wait, together.
  double actual_wait() const { return actual_wait_; }
  double expected_wait() const { return expected_wait_; }

 private:
  struct Call {
    double deadline;
    Work expected;
    int64_t prompt;
    int64_t tokens;  // that it generates before it stops
    double arrival = 0;
    double expected_wait = 0;
    int64_t computed = 0;
    int64_t served = 0;
  };

  Call Draw(double deadline) {
    std::uniform_int_distribution<size_t> which(0, traffic_.prompts.size() - 1);
    const int64_t prompt = traffic_.prompts[which(random_)];
    const int64_t tokens = std::uniform_int_distribution<int64_t>(32, 96)(random_);
    return {.deadline = deadline,
            .expected = estimate_.WorkOf(prompt, /*max_tokens=*/96),
            .prompt = prompt,
            .tokens = tokens};
  }

  LoadEstimate::Load Load() const {
    LoadEstimate::Load load;
    for (const Call& call : running_) {
      load.Add(estimate_.Left(call.expected, call.computed));
    }
    return load;
  }

  bool TooLate(const Call& call, Duration takes) const {
    return !running_.empty() && estimate_.measured() &&
           takes.count() > call.deadline - now_;
  }

  void Arrive(Call call) {
    const LoadEstimate::Load load = Load();
    const Duration run =
        LoadEstimate::kRunMargin * estimate_.RunTime(call.expected, load);
    if (waiting_.empty() && running_.size() < kPermits && !TooLate(call, run)) {
      ++admitted_;
      return Start(call);
    }
    Work before;
    for (const Call& other : waiting_) before += other.expected;
    const Duration wait = estimate_.WaitTime(before, load);
    if (TooLate(call, run + estimate_.wait_margin() * wait)) {
      ++refused_;
      return;
    }
    ++admitted_;
    call.arrival = now_;
    call.expected_wait = wait.count();
    waiting_.push_back(call);
  }

  void StartWaiting() {
    while (!waiting_.empty() && running_.size() < kPermits) {
      const Call call = waiting_.front();
      waiting_.pop_front();
      const bool too_late = TooLate(call, estimate_.RunTime(call.expected, Load()));
      estimate_.RecordTurn(too_late);
      if (too_late) {
        ++late_;
        ++refused_late_;
      } else {
        expected_wait_ += call.expected_wait;
        actual_wait_ += now_ - call.arrival;
        Start(call);
      }
    }
  }

  void Start(Call call) {
    if (call.prompt > 0) {
      call.served = std::numeric_limits<int64_t>::max();
      for (const Call& other : running_) {
        if (other.computed < other.prompt) {
          call.served = std::min(call.served, other.served);
        }
      }
      if (call.served == std::numeric_limits<int64_t>::max()) call.served = 0;
    }
    running_.push_back(call);
  }

  void Step() {
    std::vector<ScheduledChunk> chunks;
    for (const Call& call : running_) {
      chunks.push_back({.available = std::max<int64_t>(1, call.prompt - call.computed),
                        .prefill_served = call.served});
    }
    ScheduleStep(chunks, kBudget);
    int64_t tokens = 0;
    for (const ScheduledChunk& chunk : chunks) tokens += chunk.count;
    const double takes = (traffic_.fixed + traffic_.per_token * tokens) *
                         (std::fmod(now_, 10) < 7 ? 1 : traffic_.slow);
    now_ += takes;
    estimate_.RecordStep(Duration(takes), tokens);
    auto chunk = chunks.begin();
    for (auto call = running_.begin(); call != running_.end(); ++chunk) {
      call->computed += chunk->count;
      if (chunk->available > 1) call->served += chunk->count;
      // The step that ends a prompt gives the first token.
      const int64_t generated = call->computed - call->prompt + 1;
      if (call->deadline < now_) {
        ++late_;
      } else if (generated >= call->tokens) {
        ++ended_;
        estimate_.RecordEnd(generated);
      } else {
        ++call;
        continue;
      }
      call = running_.erase(call);
    }
  }

  const Traffic traffic_;
  std::mt19937 random_{1};
  LoadEstimate estimate_ = MakeEstimate();
  std::list<Call> running_;
  std::deque<Call> waiting_;
  double actual_wait_ = 0;
  double expected_wait_ = 0;
  double now_ = 0;
  int admitted_ = 0;
  int late_ = 0;
  int ended_ = 0;
  int refused_ = 0;
  int refused_late_ = 0;
};

class Overload : public testing::TestWithParam<Traffic> {};

TEST_P(Overload, AdmittedCallsMeetTheirDeadlinesAndTheCapacityIsUsed) {
  constexpr double kSeconds = 100;
  const double capacity = Simulation(GetParam()).MeasureCapacity();
  for (const double load : {3.0, 10.0}) {
    for (const double patience : {6.0, 12.0}) {
      SCOPED_TRACE(testing::Message() << load << " times, " << patience << " s");
      Simulation simulation(GetParam());
      simulation.RunOpenLoop(load * capacity, patience, kSeconds);
      EXPECT_LE(simulation.late(), 0.1 * simulation.admitted());
      EXPECT_GE(simulation.ended(), 0.9 * capacity * kSeconds);
      EXPECT_GT(simulation.actual_wait(), 0);
      EXPECT_NEAR(simulation.expected_wait() / simulation.actual_wait(), 1, 0.25);
      EXPECT_LE(simulation.refused_late(), 0.01 * simulation.refused());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Traffic, Overload,
    testing::Values(Traffic{"Short", {16}, 0.004, 0.0002},
                    Traffic{"ShortFixedCost", {16}, 0.020, 0},
                    Traffic{"ShortTokenCost", {16}, 0, 0.0005},
                    Traffic{"Long", {1024}, 0.001, 0.0001},
                    Traffic{"LongFixedCost", {1024}, 0.020, 0},
                    Traffic{"LongTokenCost", {1024}, 0, 0.0001},
                    Traffic{"Mixed", {16, 1024}, 0.001, 0.0001},
                    Traffic{"MixedFixedCost", {16, 1024}, 0.020, 0},
                    Traffic{"ShortSlowing", {16}, 0.012, 0.0005, 2},
                    Traffic{"MixedSlowing", {16, 1024}, 0.002, 0.0001, 2}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace mnemon
