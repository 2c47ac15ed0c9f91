// SPDX-License-Identifier: MIT
// Ids of calls that can be repeated.
#pragma once

#include <string>

namespace mnemon::client {

// A UUID of 122 random bits: "6c1f0b7d-93a2-445b-8a11-0c5d9e7f2b34".
std::string NewRequestId();

}  // namespace mnemon::client
