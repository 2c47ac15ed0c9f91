// SPDX-License-Identifier: MIT
#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace mnemon {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  MNEMON_CHECK(impl_->context != nullptr);
  MNEMON_CHECK(EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::string_view bytes) {
  MNEMON_CHECK(EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::HexDigest() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  MNEMON_CHECK(EVP_DigestFinal_ex(impl_->context, digest, &size) == 1);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.HexDigest();
}

}  // namespace mnemon
