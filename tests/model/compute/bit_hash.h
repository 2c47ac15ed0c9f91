// SPDX-License-Identifier: MIT
// A hash of the bits of numbers, FNV-1a, the same on every machine.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mnemon {

class BitHash {
 public:
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void Add(Number number) {
    unsigned char bytes[sizeof(number)];
    std::memcpy(bytes, &number, sizeof(number));
    for (const unsigned char byte : bytes) {
      value_ = (value_ ^ byte) * 1099511628211ull;
    }
  }
  template <class Numbers>
  requires requires(const Numbers& numbers) { numbers.begin(); }
  void Add(const Numbers& numbers) {
    for (const auto& number : numbers) Add(number);
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037ull;
};

}  // namespace mnemon
