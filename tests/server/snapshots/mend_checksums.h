// SPDX-License-Identifier: MIT
// A snapshot whose checksums are right again after its bytes were changed: so that
// tests and fuzzing come to the checks behind them.
#pragma once

#include <string>

namespace mnemon {

// Sets length and checksums as far as `bytes` has places for them.
void MendChecksums(std::string& bytes);

}  // namespace mnemon
