// SPDX-License-Identifier: MIT
// Memory that runs out while a call ends: its error turned into a status, its line in
// the log.
#include "base/error.h"
#include "gtest/gtest.h"
#include "server/rpc/status_mapping.h"
#include "server/service/access_record.h"
#include "tests/fakes/captured_log.h"
#include "tests/fakes/failing_allocation.h"

namespace mnemon {
namespace {

void ExpectOutOfMemoryWithoutMemory(const absl::Status& error) {
  const grpc::Status whole = ToGrpcStatus(error, {}, nullptr);
  int64_t failed = 0;
  for (int64_t n = 1; failed == n - 1; ++n) {
    countdown = n;
    takes_part = true;
    const grpc::Status status = ToGrpcStatus(error, {}, nullptr);
    takes_part = false;
    if (countdown.exchange(0) <= 0) {
      failed = n;
      EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << n;
      EXPECT_EQ(status.error_message(), "out of memory");
      EXPECT_NE(status.error_details().find("OUT_OF_MEMORY"), std::string::npos);
    } else {
      EXPECT_EQ(status.error_code(), whole.error_code());
      EXPECT_EQ(status.error_details(), whole.error_details());
    }
  }
  EXPECT_GT(failed, 5) << error;
}

TEST(StatusMapping, EachAllocationMayFail) {
  takes_part = false;
  for (const auto code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kFailedPrecondition}) {
    ExpectOutOfMemoryWithoutMemory(MakeError(
        code, std::string(100, 'x'),
        {.reason = "A_REASON_OF_SOME_LENGTH",
         .field = "a field with a long name, long enough for the heap",
         .retry_after = std::chrono::milliseconds(20),
         .metadata = {{"session", "a session with a name that is as long as that"}}}));
  }
  ExpectOutOfMemoryWithoutMemory(absl::UnavailableError(std::string(100, 'x')));
}

TEST(LogCall, EachAllocationMayFail) {
  takes_part = false;
  const AccessRecord call{.method = "mnemon.v1.Generation/Generate",
                          .request_id = std::string(64, 'i'),
                          .model = std::string(40, 'm'),
                          .session = std::string(40, 's'),
                          .status = absl::StatusCode::kResourceExhausted,
                          .reason = "OUT_OF_MEMORY_OF_THE_ENGINE"};
  int64_t failed = 0;
  const std::string log = CaptureLog([&] {
    for (int64_t n = 1; failed == n - 1; ++n) {
      takes_part = true;
      countdown = n;
      LogCall(LogLevel::kInfo, call);
      takes_part = false;
      if (countdown.exchange(0) <= 0) failed = n;
    }
  });
  EXPECT_GT(failed, 5);
  EXPECT_NE(log.find("status=RESOURCE_EXHAUSTED"), std::string::npos);
}

}  // namespace
}  // namespace mnemon
