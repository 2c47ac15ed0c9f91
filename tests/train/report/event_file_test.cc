// SPDX-License-Identifier: MIT
#include "train/report/event_file.h"

#include <array>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/report/event_reader.h"
#include "train/report/run_events.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// RFC 3720, appendix B.4.
TEST(Crc32c, HasTheValuesOfTheStandard) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(EventFile, BeginsAsEveryOther) {
  // What TensorBoard's own writer begins with at time 1: a record of 24 bytes, the
  // time, and "brain.Event:2".
  const std::string bytes = EventFile(1.0).bytes();
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x18\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(8, 4), "\xa3\x7f\x4b\x22");
  EXPECT_EQ(bytes.substr(12, 24), std::string("\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0d"
                                              "brain.Event:2",
                                              24));
  EXPECT_EQ(bytes.size(), 8u + 4 + 24 + 4);
}

TEST(EventFile, KeepsScalarsAndTexts) {
  EventFile file(1e9);
  const std::array<Scalar, 2> scalars = {Scalar{"loss/train", 2.5}, {"other", -1e-3}};
  file.AddScalars({.wall_time = 1e9 + 0.5, .step = 300}, scalars);
  file.AddText({.wall_time = 1e9 + 1, .step = int64_t{1} << 40}, "sample",
               std::string(300, 'x'));
  const std::vector<ReadEvent> events = ReadEvents(file.bytes());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1e9);
  EXPECT_EQ(events[1].wall_time, 1e9 + 0.5);
  EXPECT_EQ(events[1].step, 300);
  EXPECT_THAT(events[1].scalars,
              ElementsAre(Pair("loss/train", 2.5f), Pair("other", -1e-3f)));
  EXPECT_EQ(events[2].step, int64_t{1} << 40);
  EXPECT_THAT(events[2].texts, ElementsAre(Pair("sample", std::string(300, 'x'))));
}

TEST(RunEvents, HaveWhatTheRunRecorded) {
  RunRecord run;
  run.began = 5000;
  run.metrics = {{.step = 10,
                  .loss = 3,
                  .learning_rate = 0.1,
                  .gradient_norm = 1,
                  .seconds = 4,
                  .tokens_per_second = 100},
                 {.step = 20,
                  .loss = 2,
                  .validation = 2.5,
                  .accuracy = 0.25,
                  .learning_rate = 0.2,
                  .gradient_norm = 1}};
  run.samples = {{.step = 20, .text = "hello"}};
  const std::vector<ReadEvent> events = ReadEvents(FormatRunEvents(run));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_THAT(events[1].scalars,
              ElementsAre(Pair("gradient_norm", 1.0f), Pair("learning_rate", 0.1f),
                          Pair("loss/train", 3.0f), Pair("tokens_per_second", 100.0f)));
  EXPECT_EQ(events[1].wall_time, 5004);
  EXPECT_EQ(events[2].scalars.at("loss/validation"), 2.5f);
  EXPECT_EQ(events[2].scalars.at("accuracy"), 0.25f);
  EXPECT_THAT(events[3].texts, ElementsAre(Pair("sample", "hello")));
  EXPECT_THAT(events[3].scalars, IsEmpty());
}

}  // namespace
}  // namespace mnemon
