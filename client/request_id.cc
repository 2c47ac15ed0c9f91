// SPDX-License-Identifier: MIT
#include "client/request_id.h"

#include <cstdint>
#include <random>

namespace mnemon::client {

// RFC 9562, version 4.
std::string NewRequestId() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device source;
  std::string id = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  uint32_t bits = 0;
  int left = 0;
  for (char& c : id) {
    if (c != 'x' && c != 'y') continue;
    if (left == 0) {
      bits = source();
      left = 8;
    }
    const uint32_t digit = bits & 15;
    c = kDigits[c == 'y' ? 8 | (digit & 3) : digit];
    bits >>= 4;
    --left;
  }
  return id;
}

}  // namespace mnemon::client
