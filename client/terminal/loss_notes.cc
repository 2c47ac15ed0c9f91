// SPDX-License-Identifier: MIT
#include "client/terminal/loss_notes.h"

#include <unistd.h>

#include <cstdio>

#include "base/strings.h"
#include "client/terminal/sampling_flags.h"

namespace mnemon::client {

std::string ResumedNote(int64_t resumed_after) {
  return resumed_after < 0
             ? "mnemon: resumed before the first token\n"
             : StrCat("mnemon: resumed after token ", resumed_after, "\n");
}

void TellLosses(ClientOptions& options) {
  if (isatty(STDERR_FILENO) == 0) return;
  options.retry.on_wait = [](const absl::Status& lost) {
    std::fprintf(stderr, "\nmnemon: %s; trying again\n",
                 ForTerminal(std::string(lost.message())).c_str());
  };
}

}  // namespace mnemon::client
