// SPDX-License-Identifier: MIT
#include "server/service/public_error.h"

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/service/access_record.h"
#include "tests/fakes/captured_log.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

const RequestScope kCallScope{.session = "sessions/s",
                              .model = "models/m",
                              .paths = {{"top_p", "sampling.top_p"}}};

TEST(PublicStatus, NamesFieldsAndResourcesAsTheRequestDoes) {
  for (int code = 1; code <= 16; ++code) {
    const auto absl_code = static_cast<absl::StatusCode>(code);
    ErrorDetail detail{.reason = "SOME_REASON",
                       .field = "top_p[2]",
                       .retry_after = milliseconds(1234),
                       .metadata = {{"key", "value"}}};
    const absl::Status told =
        PublicStatus(MakeError(absl_code, "text", detail), kCallScope, nullptr);
    EXPECT_EQ(told.code(), absl_code);
    EXPECT_EQ(told.message(), "text");
    if (absl_code == absl::StatusCode::kCancelled ||
        absl_code == absl::StatusCode::kDeadlineExceeded) {
      EXPECT_FALSE(GetErrorDetail(told));
      continue;
    }
    detail.field = "sampling.top_p[2]";
    if (absl_code == absl::StatusCode::kNotFound ||
        absl_code == absl::StatusCode::kAlreadyExists ||
        absl_code == absl::StatusCode::kFailedPrecondition) {
      detail.metadata["resource"] = kCallScope.session;
    }
    EXPECT_EQ(GetErrorDetail(told), detail) << code;
  }
}

TEST(PublicStatus, KeepsCausesInTheLog) {
  absl::Status told;
  CallProgress progress("m");
  progress.SetRequestId("id-7");
  const std::string log = CaptureLog([&] {
    told = PublicStatus(absl::InternalError("/secret/path"), kCallScope, &progress);
  });
  EXPECT_THAT(std::string(told.message()), Not(HasSubstr("secret")));
  EXPECT_EQ(GetErrorDetail(told)->reason, "INTERNAL");
  EXPECT_THAT(log, HasSubstr("/secret/path"));
  EXPECT_THAT(log, HasSubstr("id-7"));
}

TEST(PublicStatus, OffersNoRetryOfWhatWasDelivered) {
  const absl::Status full =
      MakeError(absl::StatusCode::kResourceExhausted, "full",
                {.reason = "QUEUE_FULL", .retry_after = milliseconds(20)});
  CallProgress progress("m");
  EXPECT_TRUE(GetErrorDetail(PublicStatus(full, {}, &progress))->retry_after);
  progress.AddDelivered();
  EXPECT_FALSE(GetErrorDetail(PublicStatus(full, {}, &progress))->retry_after);
  EXPECT_EQ(progress.TakeRecord().reason, "QUEUE_FULL");
}

TEST(PublicStatus, IsShort) {
  const absl::Status told = PublicStatus(
      MakeError(absl::StatusCode::kUnavailable, std::string(5000, 'x'),
                {.reason = "R",
                 .field = std::string(5000, 'f'),
                 .metadata = {{"a", "1"}, {"b", std::string(2000, 'y')}, {"c", "2"}}}),
      {}, nullptr);
  EXPECT_LT(told.message().size(), 900u);
  const ErrorDetail detail = *GetErrorDetail(told);
  EXPECT_LT(detail.field.size(), 900u);
  EXPECT_EQ(detail.metadata, (std::map<std::string, std::string>{{"a", "1"}}));
}

}  // namespace
}  // namespace mnemon
