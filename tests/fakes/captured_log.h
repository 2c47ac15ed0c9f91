// SPDX-License-Identifier: MIT
// Standard error of the process while a function runs, the log's lines included.
#pragma once

#include <string>

#include "base/log.h"
#include "gtest/gtest.h"

namespace mnemon {

template <class Function>
std::string CaptureLog(Function function) {
  EXPECT_TRUE(FlushLog());
  testing::internal::CaptureStderr();
  function();
  EXPECT_TRUE(FlushLog());
  return testing::internal::GetCapturedStderr();
}

}  // namespace mnemon
