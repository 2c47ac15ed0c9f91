// SPDX-License-Identifier: MIT
// Random bits of the system, for seeds and ids that no caller chose.
#pragma once

#include <cstdint>
#include <string>

namespace mnemon {

uint64_t RandomNumber();
// 128 bits in hexadecimal.
std::string RandomId();

}  // namespace mnemon
