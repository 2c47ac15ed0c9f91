// SPDX-License-Identifier: MIT
#include "server/requests/random.h"

#include <cerrno>
#include <cstddef>

#include <sys/random.h>

#include "base/check.h"

namespace mnemon {
namespace {

void Fill(void* bytes, size_t size) {
  ssize_t got;
  do {
    got = getrandom(bytes, size, 0);
  } while (got < 0 && errno == EINTR);
  MNEMON_CHECK(got == static_cast<ssize_t>(size));
}

}  // namespace

uint64_t RandomNumber() {
  uint64_t number;
  Fill(&number, sizeof(number));
  return number;
}

std::string RandomId() {
  unsigned char bytes[16];
  Fill(bytes, sizeof(bytes));
  std::string id;
  for (unsigned char byte : bytes) {
    id += "0123456789abcdef"[byte >> 4];
    id += "0123456789abcdef"[byte & 15];
  }
  return id;
}

}  // namespace mnemon
