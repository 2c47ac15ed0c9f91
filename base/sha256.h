// SPDX-License-Identifier: MIT
// SHA-256 of bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace mnemon {

// Incremental SHA-256. Not safe for concurrent use.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);
  // Lower-case hexadecimal, 64 characters. REQUIRES: called once.
  std::string HexDigest();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string Sha256Hex(std::string_view bytes);

}  // namespace mnemon
