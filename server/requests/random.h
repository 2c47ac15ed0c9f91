// SPDX-License-Identifier: MIT
// Random bits from the kernel, for seeds and ids that callers leave open. Safe for
// concurrent use.
#pragma once

#include <cstdint>
#include <string>

namespace mnemon {

uint64_t RandomNumber();
// 128 bits in hexadecimal.
std::string RandomId();

}  // namespace mnemon
