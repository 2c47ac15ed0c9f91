// SPDX-License-Identifier: MIT
#include "train/parallel/launch.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Launch> Read(const std::map<std::string, std::string>& variables) {
  return ReadLaunch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::map<std::string, std::string> Whole() {
  return {{"WORLD_SIZE", "4"},
          {"RANK", "3"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

TEST(Launch, AProcessByItself) {
  EXPECT_EQ(Read({})->size, 1);
  EXPECT_EQ(Read({{"WORLD_SIZE", "1"}})->size, 1);
  EXPECT_EQ(Read({{"RANK", "7"}})->size, 1);
}

TEST(Launch, OneOfSeveral) {
  auto variables = Whole();
  auto launch = Read(variables);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 4);
  EXPECT_EQ(launch->local_size, 1);
  EXPECT_EQ(launch->address, "10.0.0.1");
  EXPECT_EQ(launch->port, 29500);
  variables["LOCAL_WORLD_SIZE"] = "2";
  EXPECT_EQ(Read(variables)->local_size, 2);
}

// Its agent listens at the port that it names.
TEST(Launch, UnderTorchrunTheNextPort) {
  auto variables = Whole();
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(Read(variables)->port, 29501);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(Read(variables)->port, 29500);
}

TEST(Launch, WhatIsMissingOrWrongIsNamed) {
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    auto variables = Whole();
    variables.erase(name);
    const auto missing = Read(variables);
    EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(missing.status().message()), HasSubstr(name));
    variables[name] = "";
    EXPECT_FALSE(Read(variables).ok());
  }
  for (const auto& [name, value] :
       {std::pair("WORLD_SIZE", "0"), std::pair("WORLD_SIZE", "two"),
        std::pair("WORLD_SIZE", "99999999999"), std::pair("WORLD_SIZE", ""),
        std::pair("RANK", "4"), std::pair("RANK", "-1"), std::pair("RANK", "1x"),
        std::pair("MASTER_PORT", "0"), std::pair("MASTER_PORT", "65536"),
        std::pair("LOCAL_WORLD_SIZE", "5")}) {
    auto variables = Whole();
    variables[name] = value;
    const auto wrong = Read(variables);
    EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument)
        << name << value;
    EXPECT_THAT(std::string(wrong.status().message()), HasSubstr(name));
  }
}

}  // namespace
}  // namespace mnemon
