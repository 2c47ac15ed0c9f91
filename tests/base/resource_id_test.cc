// SPDX-License-Identifier: MIT
#include "base/resource_id.h"

#include <string>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(ResourceId, IsLowerCaseLettersDigitsAndInnerDashes) {
  for (const std::string& id : {std::string("a"), std::string("0"), std::string("a-"),
                                std::string("9-b--c"), std::string(63, 'z')}) {
    EXPECT_TRUE(IsResourceId(id)) << id;
  }
  for (const std::string& id :
       {std::string(), std::string("-a"), std::string("A"), std::string("a_b"),
        std::string("a/b"), std::string("a."), std::string("\xc3\xa9"),
        std::string("a\0b", 3), std::string("a\n"), std::string(64, 'z')}) {
    EXPECT_FALSE(IsResourceId(id)) << id;
  }
}

}  // namespace
}  // namespace mnemon
