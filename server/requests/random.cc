// SPDX-License-Identifier: MIT
#include "server/requests/random.h"

#include <sys/random.h>

#include "base/check.h"
#include "base/strings.h"

namespace mnemon {

uint64_t RandomNumber() {
  uint64_t number;
  MNEMON_CHECK(getentropy(&number, sizeof(number)) == 0);
  return number;
}

std::string RandomId() {
  return StrCat(absl::Hex(RandomNumber(), absl::kZeroPad16),
                absl::Hex(RandomNumber(), absl::kZeroPad16));
}

}  // namespace mnemon
