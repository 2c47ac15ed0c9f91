// SPDX-License-Identifier: MIT
#include "server/transport/traffic_check.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

using std::chrono::seconds;

constexpr TrafficLimits kLimits = {};
constexpr int64_t kMuch = 1 << 20;

std::optional<ShutDownReason> Check(const SocketReading& socket,
                                    const ConnectionUse& use,
                                    std::optional<StreamCounts> streams,
                                    seconds age = seconds(1)) {
  return CheckTraffic({.unaccounted = UnaccountedBytes(socket, use, age, kLimits),
                       .sent = kMuch,
                       .use = use,
                       .streams = streams,
                       .age = age},
                      kLimits);
}

TEST(Traffic, HonestCallsMayGoOnForEver) {
  // Calls with headers of 8 KiB, messages of 100 bytes, and streams that are read.
  constexpr int64_t kCalls = 1'000'000;
  const ConnectionUse use = {.calls_begun = kCalls,
                             .messages_received = kCalls,
                             .message_bytes = 100 * kCalls,
                             .messages_sent = 50 * kCalls};
  const SocketReading socket = {.received_bytes = kCalls * (8192 + 100 + 40 + 50 * 40),
                                .acked_bytes = 50 * kCalls * 120};
  EXPECT_EQ(UnaccountedBytes(socket, use, seconds(100), kLimits), 0);
  EXPECT_EQ(Check(socket, use, StreamCounts{kCalls, kCalls}), std::nullopt);
}

TEST(Traffic, MessagesOnTheirWayMayBeAsManyAsStreamsAreOpen) {
  const ConnectionUse none = {};
  const SocketReading socket = {.received_bytes = 10 * kLimits.message_bytes};
  EXPECT_EQ(Check(socket, none, StreamCounts{10, 0}), std::nullopt);
  EXPECT_EQ(Check(socket, none, StreamCounts{9, 0}), ShutDownReason::kTraffic);
  // Without counts the bound of a connection holds.
  EXPECT_EQ(Check(socket, none, std::nullopt), std::nullopt);
  EXPECT_EQ(Check({.received_bytes = kLimits.connection_bytes + (1 << 20)}, none,
                  StreamCounts{1000, 0}),
            ShutDownReason::kTraffic);
}

TEST(Traffic, AMessageThatIsRefusedIsNoFlood) {
  const ConnectionUse use = {.calls_begun = 4};
  EXPECT_EQ(
      Check({.received_bytes = 4 * kLimits.message_bytes}, use, StreamCounts{4, 4}),
      std::nullopt);
  EXPECT_EQ(
      Check({.received_bytes = 5 * kLimits.message_bytes}, use, StreamCounts{4, 4}),
      ShutDownReason::kTraffic);
}

TEST(Traffic, OnlyOpenStreamsHoldBytes) {
  const int64_t one = kLimits.message_bytes + kLimits.header_bytes;
  EXPECT_EQ(InFlightBytes(1000, StreamCounts{3, 2}, kLimits), 1000);
  EXPECT_EQ(InFlightBytes(3 * one, StreamCounts{3, 1}, kLimits), 2 * one);
  EXPECT_EQ(InFlightBytes(1000, StreamCounts{3, 3}, kLimits), 0);
  EXPECT_EQ(InFlightBytes(1000, std::nullopt, kLimits), 1000);
}

TEST(Traffic, FramesWithoutCallsAreFew) {
  // Empty frames, pings, headers without end.
  EXPECT_EQ(Check({.received_bytes = 300 << 10}, {}, StreamCounts{}), std::nullopt);
  EXPECT_EQ(Check({.received_bytes = 500 << 10}, {}, StreamCounts{}),
            ShutDownReason::kTraffic);
  // A keepalive every ten seconds for a day.
  EXPECT_EQ(Check({.received_bytes = 8640 * 17}, {}, StreamCounts{}, seconds(86400)),
            std::nullopt);
}

TEST(Traffic, ResetsAreInProportionToCallsThatEnd) {
  const ConnectionUse cancelled = {.calls_begun = 3000, .calls_cancelled = 3000};
  EXPECT_EQ(Check({}, cancelled, std::nullopt), ShutDownReason::kResets);
  // The same over a minute, or beside calls that are let to end.
  EXPECT_EQ(Check({}, cancelled, std::nullopt, seconds(60)), std::nullopt);
  const ConnectionUse some = {.calls_begun = 3300, .calls_cancelled = 3000};
  EXPECT_EQ(Check({}, some, std::nullopt), std::nullopt);
  // Streams that never became calls count likewise.
  EXPECT_EQ(Check({}, {.calls_begun = 10}, StreamCounts{3000, 3000}),
            ShutDownReason::kResets);
  // Those that are open may still become calls.
  EXPECT_EQ(Check({}, {.calls_begun = 10}, StreamCounts{2000, 20}), std::nullopt);
}

TEST(Traffic, StreamsThatWaitToBecomeCallsAreBounded) {
  EXPECT_EQ(Check({}, {}, StreamCounts{2048, 0}), std::nullopt);
  EXPECT_EQ(Check({}, {}, StreamCounts{2049, 0}), ShutDownReason::kCalls);
  EXPECT_EQ(Check({}, {.calls_begun = 8000}, StreamCounts{9000, 8000}), std::nullopt);
}

TEST(Traffic, BeforeAWindowUpdateOnlyTheFirstWindowMayCome) {
  // A stream is open, on which a message could be on its way.
  Traffic traffic = {
      .unaccounted = 300 << 10, .sent = 64, .streams = StreamCounts{1, 0}};
  EXPECT_EQ(CheckTraffic(traffic, kLimits), std::nullopt);
  traffic.unaccounted = 400 << 10;
  EXPECT_EQ(CheckTraffic(traffic, kLimits), ShutDownReason::kTraffic);
  // SETTINGS, their acknowledgement, and the windows of a stream and the connection.
  traffic.sent = 68;
  EXPECT_EQ(CheckTraffic(traffic, kLimits), std::nullopt);
}

TEST(Traffic, OneWindowUpdateIsForAMegabyteAndAHalf) {
  Traffic traffic = {.unaccounted = 4 << 20,
                     .unanswered = 1 << 20,
                     .sent = 1000,
                     .streams = StreamCounts{1, 0}};
  EXPECT_EQ(CheckTraffic(traffic, kLimits), std::nullopt);
  traffic.unanswered = 2 << 20;
  EXPECT_EQ(CheckTraffic(traffic, kLimits), ShutDownReason::kTraffic);
}

TEST(Traffic, UnansweredIsWhatCameSinceSomethingWasSent) {
  UnansweredBytes unanswered;
  EXPECT_EQ(unanswered.Update({.sent_bytes = 42}, 1000), 0);
  EXPECT_EQ(unanswered.Update({.sent_bytes = 42}, 5000), 4000);
  EXPECT_EQ(unanswered.Update({.sent_bytes = 55}, 6000), 0);
  EXPECT_EQ(unanswered.Update({.sent_bytes = 55}, 6500), 500);
  // They became calls; what comes then counts from there.
  EXPECT_EQ(unanswered.Update({.sent_bytes = 55}, 0), 0);
  EXPECT_EQ(unanswered.Update({.sent_bytes = 55}, 700), 700);
}

TEST(Traffic, AnAllowanceIsAShareOfWhatIsFree) {
  Traffic traffic = {
      .sent = kMuch, .streams = StreamCounts{200, 200}, .age = seconds(1)};
  EXPECT_EQ(CheckTraffic(traffic, kLimits), std::nullopt);
  traffic.allowance = 1.0 / 16;
  EXPECT_EQ(CheckTraffic(traffic, kLimits), ShutDownReason::kResets);
  traffic.streams = StreamCounts{129, 0};
  EXPECT_EQ(CheckTraffic(traffic, kLimits), ShutDownReason::kCalls);
  // Calls that end are not fewer for that.
  traffic.streams = StreamCounts{1000, 1000};
  traffic.use = {.calls_begun = 1000};
  EXPECT_EQ(CheckTraffic(traffic, kLimits), std::nullopt);
}

TEST(Traffic, AClientThatSendsNoGreetingIsSilent) {
  EXPECT_FALSE(IsSilent({.received_bytes = 32}, seconds(9), kLimits));
  EXPECT_TRUE(IsSilent({.received_bytes = 32}, seconds(11), kLimits));
  EXPECT_FALSE(IsSilent({.received_bytes = 33}, seconds(11), kLimits));
  EXPECT_FALSE(IsSilent({.received_bytes = 0, .closed = true}, seconds(11), kLimits));
}

TEST(Traffic, OutcomeIsThatOfItsCalls) {
  const ConnectionUse used = {.calls_begun = 5, .calls_cancelled = 4};
  const ConnectionUse cancelled = {.calls_begun = 4, .calls_cancelled = 4};
  const auto classify = [](std::optional<ShutDownReason> shut_down, int64_t received,
                           const ConnectionUse& use) {
    return Classify(shut_down, {.received_bytes = received}, use, seconds(1), kLimits);
  };
  EXPECT_EQ(classify(std::nullopt, 100'000, used), ConnectionOutcome::kUseful);
  EXPECT_EQ(classify(std::nullopt, 100'000, cancelled), ConnectionOutcome::kUseless);
  EXPECT_EQ(classify(std::nullopt, 100, {}), ConnectionOutcome::kUseless);
  EXPECT_EQ(classify(std::nullopt, 1'000'000, used), ConnectionOutcome::kAbusive);
  EXPECT_EQ(classify(ShutDownReason::kResets, 0, used), ConnectionOutcome::kAbusive);
  EXPECT_EQ(classify(ShutDownReason::kSilent, 0, {}), ConnectionOutcome::kUseless);
  // Not of the peer's choice.
  EXPECT_EQ(classify(ShutDownReason::kIdle, 100, {}), ConnectionOutcome::kUseful);
  EXPECT_EQ(classify(ShutDownReason::kEnd, 1'000'000, cancelled),
            ConnectionOutcome::kUseful);
}

}  // namespace
}  // namespace mnemon
