// SPDX-License-Identifier: MIT
// The values of --checkpoint.
#include "server/loaded_models.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(ParseCheckpointFlags, NamesAndDirectories) {
  auto flags = ParseCheckpointFlags({"runs/a", "b=runs/b", "c=x=y"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ((*flags)[0].name, "default");
  EXPECT_EQ((*flags)[1].name, "b");
  EXPECT_EQ((*flags)[1].dir, "runs/b");
  EXPECT_EQ((*flags)[2].dir, "x=y");
  EXPECT_EQ(ParseCheckpointFlags({"./a=b"})->at(0).dir, "./a=b");
  EXPECT_FALSE(ParseCheckpointFlags({"a=x", "a=y"}).ok());
  EXPECT_FALSE(ParseCheckpointFlags({""}).ok());
}

}  // namespace
}  // namespace mnemon
