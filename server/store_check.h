// SPDX-License-Identifier: MIT
// `mnemon-server --data-dir D --check` and `--repair`. Both report on standard output.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace mnemon {

// Reads only. DATA_LOSS if something is damaged; the errors of ViewSessionStore.
absl::Status CheckStore(const std::string& directory);

// Makes copies whole, and cuts damaged sessions to the tokens up to which they are
// whole. DATA_LOSS if the records of sessions are missing, which stay as they are; the
// errors of RepairSessionStore.
absl::Status RepairStore(const std::string& directory);

}  // namespace mnemon
