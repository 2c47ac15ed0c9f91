// SPDX-License-Identifier: MIT
#include <array>

#include "base/check.h"
#include "model/text/tokenizer.h"
#include "model/text/tokenizer_json.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

constexpr int32_t kBytes = 256;

class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer() {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i);
  }

  int32_t size() const override { return kBytes; }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    for (const char byte : text) ids.push_back(static_cast<uint8_t>(byte));
    return ids;
  }

  std::string_view TokenBytes(int32_t id) const override {
    MNEMON_CHECK(id >= 0 && id < kBytes);
    return {&bytes_[static_cast<size_t>(id)], 1};
  }

  std::string Describe() const override { return "every byte"; }

  std::string ToJson() const override { return TokenizerJson({{"type", "Byte"}}); }

 private:
  std::array<char, kBytes> bytes_;
};

}  // namespace

std::unique_ptr<Tokenizer> MakeByteTokenizer() {
  return std::make_unique<ByteTokenizer>();
}

}  // namespace mnemon
