// SPDX-License-Identifier: MIT
// Apart from the store, for those who only write keys and values.
#include <algorithm>

#include "server/store/session_store.h"

namespace mnemon {
namespace {

constexpr size_t kNumberBytes = 8;

}  // namespace

std::string RecordExpiry(int64_t unix_ms) {
  std::string bytes;
  for (int bit = 0; bit < 64; bit += 8) {
    bytes.push_back(static_cast<char>(unix_ms >> bit));
  }
  return bytes;
}

std::string_view RecordText(std::string_view value) {
  return value.substr(std::min(kNumberBytes, value.size()));
}

std::string JournalName(uint64_t sequence) {
  std::string bytes;
  for (int bit = 56; bit >= 0; bit -= 8) {
    bytes.push_back(static_cast<char>(sequence >> bit));
  }
  return bytes;
}

std::optional<uint64_t> JournalSequence(std::string_view name) {
  if (name.size() != kNumberBytes) return std::nullopt;
  uint64_t number = 0;
  for (const char byte : name) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

}  // namespace mnemon
