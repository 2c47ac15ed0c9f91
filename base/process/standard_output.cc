// SPDX-License-Identifier: MIT
#include "base/process/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/strings.h"

namespace mnemon {

absl::Status WriteStandardOutput(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
      std::fflush(stdout) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      StrCat("cannot write standard output: ", std::strerror(errno)));
}

}  // namespace mnemon
