// SPDX-License-Identifier: MIT
#include "server/admission/admission_queue.h"

#include <chrono>
#include <deque>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using Verdict = AdmissionQueue::Verdict;

class AdmissionQueueTest : public testing::Test {
 protected:
  AdmissionTicket& Ticket(int64_t bytes = 1) {
    AdmissionTicket& ticket = tickets_.emplace_back();
    ticket.input_bytes = bytes;
    ticket.named = true;
    return ticket;
  }
  Verdict Enter(AdmissionTicket& ticket) {
    return queue_.Enter(ticket, /*prompt_tokens=*/10, /*max_tokens=*/10);
  }
  // So many permits come back; the tickets that start then, and those that are refused.
  void EndRound(int32_t permits, int64_t stalled = 0,
                const AdmissionQueue::Running& running = {}) {
    started_.clear();
    refused_.clear();
    queue_.EndRound(permits, permits, stalled, running, {});
    queue_.StartWaiting([&](AdmissionTicket& ticket, bool starts) {
      (starts ? started_ : refused_).push_back(&ticket);
    });
  }
  // Steps of 10 ms and one token.
  void Measure() {
    for (int i = 0; i < 64; ++i) queue_.RecordStep(milliseconds(10), 1);
    queue_.RecordEnd(10);
  }

  FakeClock clock_;
  AdmissionQueue queue_{{.running = 2,
                         .most_lent = 1,
                         .max_queue = 3,
                         .queue_bytes = 100,
                         .max_wait = seconds(60),
                         .chunk = 64,
                         .step_tokens = 256,
                         .clock = &clock_}};
  std::deque<AdmissionTicket> tickets_;
  std::vector<AdmissionTicket*> started_, refused_;
};

TEST_F(AdmissionQueueTest, StartsInTheOrderOfArrival) {
  EXPECT_EQ(Enter(Ticket()), Verdict::kStarts);
  EXPECT_EQ(Enter(Ticket()), Verdict::kStarts);
  AdmissionTicket& third = Ticket();
  AdmissionTicket& fourth = Ticket();
  EXPECT_EQ(Enter(third), Verdict::kWaits);
  EXPECT_EQ(Enter(fourth), Verdict::kWaits);
  EXPECT_TRUE(third.waiting);
  EXPECT_EQ(queue_.waiting(), 2);
  EXPECT_EQ(queue_.permits_named(), 2);
  EndRound(1);
  EXPECT_THAT(started_, ElementsAre(&third));
  EXPECT_FALSE(third.waiting);
  EndRound(2);
  EXPECT_THAT(started_, ElementsAre(&fourth));
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.permits(), 1);
}

TEST_F(AdmissionQueueTest, IsBoundedByCallsAndBytes) {
  Enter(Ticket());
  Enter(Ticket());
  EXPECT_EQ(Enter(Ticket(60)), Verdict::kWaits);
  EXPECT_EQ(Enter(Ticket(41)), Verdict::kQueueFull);
  AdmissionTicket& small = Ticket(10);
  EXPECT_EQ(Enter(small), Verdict::kWaits);
  EXPECT_TRUE(queue_.AddInput(small, 30, 4));
  EXPECT_FALSE(queue_.AddInput(small, 1, 1));
  queue_.Leave(small);
  EXPECT_EQ(Enter(Ticket(0)), Verdict::kWaits);
  EXPECT_EQ(Enter(Ticket(0)), Verdict::kWaits);
  EXPECT_EQ(Enter(Ticket(0)), Verdict::kQueueFull);
  int left = 0;
  queue_.Clear([&](AdmissionTicket&) { ++left; });
  EXPECT_EQ(left, 3);
  EXPECT_EQ(Enter(Ticket(100)), Verdict::kWaits);
}

TEST_F(AdmissionQueueTest, StalledCallsLendTheirPermits) {
  Enter(Ticket());
  Enter(Ticket());
  AdmissionTicket& third = Ticket();
  AdmissionTicket& fourth = Ticket();
  Enter(third);
  Enter(fourth);
  EndRound(0, /*stalled=*/2);  // one of them, at most
  EXPECT_THAT(started_, ElementsAre(&third));
  EXPECT_EQ(queue_.permits(), 3);
}

TEST_F(AdmissionQueueTest, NobodyStartsAfterACallThatWaitsForBlocks) {
  Enter(Ticket());
  AdmissionQueue::Running running{.starting = 1, .starting_work = {.generated = 1}};
  EndRound(0, 0, running);
  EXPECT_TRUE(queue_.blocked());
  AdmissionTicket& next = Ticket();
  EXPECT_EQ(Enter(next), Verdict::kWaits);
  EndRound(0);
  EXPECT_THAT(started_, ElementsAre(&next));
}

TEST_F(AdmissionQueueTest, ACallThatCannotMeetItsDeadlineIsRefused) {
  Measure();
  AdmissionTicket& alone = Ticket();
  alone.deadline = clock_.Now();
  // It takes no time from others.
  EXPECT_EQ(Enter(alone), Verdict::kStarts);
  AdmissionTicket& late = Ticket();
  late.deadline = clock_.Now() + milliseconds(1);
  EXPECT_EQ(Enter(late), Verdict::kTooLate);
  AdmissionTicket& early = Ticket();
  early.deadline = clock_.Now() + seconds(60);
  EXPECT_EQ(Enter(early), Verdict::kStarts);
}

TEST_F(AdmissionQueueTest, AWaitingCallThatGetsTooLateIsRefused) {
  Measure();
  Enter(Ticket());
  Enter(Ticket());
  AdmissionTicket& waits = Ticket();
  waits.deadline = clock_.Now() + seconds(60);
  ASSERT_EQ(Enter(waits), Verdict::kWaits);
  EndRound(0);
  EXPECT_THAT(refused_, IsEmpty());
  clock_.Advance(seconds(60));
  EndRound(0);
  EXPECT_THAT(refused_, ElementsAre(&waits));
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace mnemon
