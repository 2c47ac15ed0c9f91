// SPDX-License-Identifier: MIT
#include "server/rpc/status_mapping.h"

#include "base/error.h"
#include "client/status.h"
#include "client/terminal/describe_error.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "tests/fakes/captured_log.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

const RequestScope kScope{.session = "sessions/s",
                          .model = "models/m",
                          .paths = {{"top_p", "sampling.top_p"}}};

TEST(StatusMapping, RoundTripsEveryCodeWithItsDetail) {
  for (int code = 1; code <= 16; ++code) {
    const auto absl_code = static_cast<absl::StatusCode>(code);
    const ErrorDetail detail{.reason = "SOME_REASON",
                             .field = "top_p[2]",
                             .retry_after = milliseconds(1234),
                             .metadata = {{"key", "value"}}};
    const grpc::Status wire =
        ToGrpcStatus(MakeError(absl_code, "text", detail), kScope, nullptr);
    EXPECT_EQ(static_cast<int>(wire.error_code()), code);
    const absl::Status back = client::FromGrpcStatus(wire);
    EXPECT_EQ(back.code(), absl_code);
    EXPECT_EQ(back.message(), "text");
    if (absl_code == absl::StatusCode::kCancelled ||
        absl_code == absl::StatusCode::kDeadlineExceeded) {
      EXPECT_TRUE(wire.error_details().empty());
      continue;
    }
    ErrorDetail expected = detail;
    expected.field = "sampling.top_p[2]";
    if (absl_code == absl::StatusCode::kNotFound ||
        absl_code == absl::StatusCode::kAlreadyExists ||
        absl_code == absl::StatusCode::kFailedPrecondition) {
      expected.metadata["resource"] = kScope.session;
    }
    EXPECT_EQ(GetErrorDetail(back), expected) << code;
  }
}

TEST(StatusMapping, EveryErrorHasErrorInfoOnce) {
  for (const absl::Status& status :
       {absl::UnavailableError("x"), absl::InternalError("x"), absl::NotFoundError("x"),
        InvalidField("f", "x")}) {
    const grpc::Status wire = ToGrpcStatus(status, kScope, nullptr);
    google::rpc::Status details;
    ASSERT_TRUE(details.ParseFromString(wire.error_details()));
    EXPECT_EQ(details.code(), static_cast<int>(wire.error_code()));
    int infos = 0;
    for (const auto& any : details.details()) {
      google::rpc::ErrorInfo info;
      if (!any.UnpackTo(&info)) continue;
      ++infos;
      EXPECT_EQ(info.domain(), "mnemon.dev");
      EXPECT_FALSE(info.reason().empty());
    }
    EXPECT_EQ(infos, 1) << status;
  }
}

TEST(StatusMapping, UntypedInternalErrorsKeepTheirTextToThemselves) {
  grpc::Status wire;
  EXPECT_THAT(CaptureLog([&] {
                wire = ToGrpcStatus(absl::InternalError("/home/secret.cc:12"), {},
                                    nullptr);
              }),
              HasSubstr("secret"));
  EXPECT_THAT(wire.error_message(), Not(HasSubstr("secret")));
  EXPECT_THAT(wire.error_details(), Not(HasSubstr("secret")));
}

TEST(StatusMapping, FitsIntoATrailer) {
  // Three bytes per character, nine when percent-encoded.
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "\xe2\x82\xac";
  std::map<std::string, std::string> metadata;
  for (int i = 0; i < 100; ++i)
    metadata["key" + std::to_string(i)] = text.substr(0, 300);
  const grpc::Status wire =
      ToGrpcStatus(MakeError(absl::StatusCode::kInvalidArgument, text,
                             {.reason = "R", .field = text, .metadata = metadata}),
                   {}, nullptr);
  const size_t trailer =
      wire.error_message().size() * 3 + wire.error_details().size() * 4 / 3;
  EXPECT_LT(trailer, 8000u);
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(wire.error_details()));
}

TEST(StatusMapping, HostileDetailsAreHarmless) {
  // The largest code that the enumeration can hold.
  EXPECT_EQ(client::FromGrpcStatus(
                grpc::Status(static_cast<grpc::StatusCode>(31), "x", "junk"))
                .code(),
            absl::StatusCode::kUnknown);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(INT64_MAX);
  google::rpc::Status details;
  details.add_details()->PackFrom(retry);
  const absl::Status status = client::FromGrpcStatus(
      grpc::Status(grpc::StatusCode::UNAVAILABLE, "x", details.SerializeAsString()));
  EXPECT_FALSE(GetErrorDetail(status)->retry_after.has_value());
}

TEST(DescribeError, IsOneLineWithEverything) {
  const absl::Status status = client::Described(MakeError(
      absl::StatusCode::kResourceExhausted, "too much",
      {.reason = "QUEUE_FULL", .field = "f", .retry_after = milliseconds(250)}));
  EXPECT_EQ(status.message(),
            "too much (RESOURCE_EXHAUSTED, QUEUE_FULL, field f, retry after 250 ms)");
  EXPECT_TRUE(client::Described(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace mnemon
