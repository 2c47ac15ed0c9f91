// SPDX-License-Identifier: MIT
// `mnemon-server --data-dir D --check` and `--repair`: what a store has, said line by
// line on standard output, and what can be done about what is damaged.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace mnemon {

// Reads only. OK when all is whole; DATA_LOSS when something is not. The errors of
// ViewSessionStore.
absl::Status CheckStore(const std::string& directory);

// Makes copies whole; cuts damaged sessions to the tokens up to which they are whole.
// Sessions whose records are missing stay as they are: DATA_LOSS says that there are
// some. The errors of RepairSessionStore.
absl::Status RepairStore(const std::string& directory);

}  // namespace mnemon
