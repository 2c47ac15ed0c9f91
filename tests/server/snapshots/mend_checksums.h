// SPDX-License-Identifier: MIT
// Corrects the checksums of a snapshot after its bytes were changed, so that tests and
// fuzzing reach the later checks.
#pragma once

#include <string>

namespace mnemon {

// Sets length and checksums as far as `bytes` has places for them.
void MendChecksums(std::string& bytes);

}  // namespace mnemon
