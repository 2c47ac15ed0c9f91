// SPDX-License-Identifier: MIT
#include "server/service/call_services.h"

#include <chrono>
#include <memory>
#include <optional>

#include "base/error.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

// A caller without a deadline.
class PatientCaller final : public Caller {
 public:
  CallProgress& progress() override { return progress_; }
  std::optional<Time> deadline() const override { return std::nullopt; }
  bool gone() const override { return false; }
  std::shared_ptr<const Connection> connection() const override { return nullptr; }
  std::function<void(const absl::Status&)> CancelFunction() override {
    return [](const absl::Status&) {};
  }

 private:
  CallProgress progress_{"test"};
};

TEST(Admission, FillsAtItsRate) {
  FakeClock clock;
  const PatientCaller caller;
  Admission limit(2, clock);
  EXPECT_TRUE(limit.Admit(caller).ok());
  EXPECT_TRUE(limit.Admit(caller).ok());
  const absl::Status refused = limit.Admit(caller);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const auto wait = GetErrorDetail(refused)->retry_after;
  ASSERT_TRUE(wait);
  EXPECT_GE(*wait, milliseconds(500));
  EXPECT_LE(*wait, milliseconds(502));
  clock.Advance(*wait - milliseconds(10));
  EXPECT_FALSE(limit.Admit(caller).ok());
  clock.Advance(milliseconds(10));
  EXPECT_TRUE(limit.Admit(caller).ok());
  EXPECT_FALSE(limit.Admit(caller).ok());
  clock.Advance(std::chrono::hours(1));
  EXPECT_TRUE(limit.Admit(caller).ok());
  EXPECT_TRUE(limit.Admit(caller).ok());
  EXPECT_FALSE(limit.Admit(caller).ok());
}

TEST(Admission, LessThanOnePerSecondAndNone) {
  FakeClock clock;
  const PatientCaller caller;
  Admission slow(0.1, clock);
  EXPECT_TRUE(slow.Admit(caller).ok());
  EXPECT_FALSE(slow.Admit(caller).ok());
  clock.Advance(std::chrono::seconds(10));
  EXPECT_TRUE(slow.Admit(caller).ok());
  Admission none(0, clock);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(none.Admit(caller).ok());
}

}  // namespace
}  // namespace mnemon
