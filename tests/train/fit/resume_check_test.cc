// SPDX-License-Identifier: MIT
#include "train/fit/resume_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

class ResumeCheck : public ::testing::Test {
 protected:
  ResumeCheck() {
    before_.model.architecture = "causal";
    before_.duration.steps = 100;
    now_ = before_;
    state_.steps = 40;
    state_.text_sha256 = "text";
  }
  absl::Status Check(const std::string& text = "text") {
    return CheckSameRun(before_, now_, state_, text);
  }
  TrainConfig before_, now_;
  TrainingState state_;
};

TEST_F(ResumeCheck, TheSameMayContinue) {
  EXPECT_TRUE(Check().ok());
  now_.out = "elsewhere";
  now_.data.text = "moved.txt";
  now_.keep = 7;
  now_.sample.tokens = 0;
  EXPECT_TRUE(Check().ok());
}

TEST_F(ResumeCheck, EveryDifferenceIsListed) {
  now_.schedule.lr = 0.5;
  now_.model.d_model = 32;
  now_.seed = 9;
  const absl::Status status = Check("other");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* part :
       {"optimiser.lr was 0.001 and is now 0.5", "model.d_model was 0 and is now 32",
        "train.seed", "data.text", "--out"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST_F(ResumeCheck, StepsGrowOnlyWhereTheScheduleIgnoresThem) {
  now_.duration.steps = 200;
  EXPECT_TRUE(Check().ok());
  now_.duration.steps = 39;
  EXPECT_FALSE(Check().ok());
  now_.duration.steps = 200;
  before_.schedule.kind = now_.schedule.kind = ScheduleKind::kCosine;
  EXPECT_FALSE(Check().ok());
  before_.schedule.kind = now_.schedule.kind = ScheduleKind::kConstant;
  before_.duration = {.seconds = 9};
  EXPECT_FALSE(Check().ok());
}

}  // namespace
}  // namespace mnemon
