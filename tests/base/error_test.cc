// SPDX-License-Identifier: MIT
#include "base/error.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(Error, KeepsItsDetail) {
  const ErrorDetail details[] = {
      {.reason = "A"},
      {.reason = "B",
       .field = "prompt[3]",
       .retry_after = std::chrono::milliseconds(0)},
      {.reason = "C",
       .field = "two\nlines, \"quoted\" \\ \xc3\xa9",
       .retry_after = std::chrono::milliseconds(1) * (int64_t{1} << 40),
       .metadata = {{"", "null"}, {"key\n", std::string("a\0b", 3)}, {"x", ""}}},
  };
  for (const ErrorDetail& detail : details) {
    const absl::Status status = MakeError(absl::StatusCode::kAborted, "text", detail);
    EXPECT_EQ(GetErrorDetail(status), detail);
    EXPECT_EQ(GetErrorDetail(Annotated(status, "at")), detail);
  }
}

TEST(Error, BytesThatAreNotUtf8AreReplaced) {
  const auto detail = GetErrorDetail(InvalidField("a\xff", "text"));
  EXPECT_EQ(detail->field, "a\xef\xbf\xbd");
}

TEST(Error, OthersHaveNoDetail) {
  EXPECT_FALSE(GetErrorDetail(absl::OkStatus()));
  EXPECT_FALSE(GetErrorDetail(absl::AbortedError("text")));
}

}  // namespace
}  // namespace mnemon
