// SPDX-License-Identifier: MIT
// Checks for programmer errors. Never reachable from a request, a file or a flag: those
// return absl::Status.
#pragma once

namespace mnemon {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace mnemon

#define MNEMON_CHECK(condition) \
  ((condition) ? (void)0 : ::mnemon::CheckFailed(__FILE__, __LINE__, #condition))
