// SPDX-License-Identifier: MIT
// Bytes of any kind are refused with a message, or are a token file whose header can be
// written again and whose tokens are of its vocabulary or refused by name. Each input
// is tried as it is, and with a checksum that is right.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "base/check.h"
#include "base/sha256.h"
#include "train/data/token_file_header.h"
#include "train/data/token_view.h"

namespace mnemon {
namespace {

// docs/token_file_format.md
constexpr size_t kTokenizerBytesAt = 28, kChecksumAt = 64, kTokenizerAt = 96;

void MendChecksum(std::string& bytes) {
  if (bytes.size() < kTokenizerAt) return;
  uint32_t tokenizer_bytes = 0;
  std::memcpy(&tokenizer_bytes, bytes.data() + kTokenizerBytesAt,
              sizeof(tokenizer_bytes));
  const uint64_t end = (uint64_t{kTokenizerAt} + tokenizer_bytes + 63) / 64 * 64;
  if (end > bytes.size()) return;
  Sha256 hash;
  hash.Update(std::string_view(bytes).substr(0, kChecksumAt));
  hash.Update(std::string_view(bytes).substr(kTokenizerAt, end - kTokenizerAt));
  bytes.replace(kChecksumAt, 32, absl::HexStringToBytes(hash.HexDigest()));
}

void CheckTokens(const ParsedTokenFile& file) {
  const int64_t vocab = file.header.tokenizer->size();
  const TokenView view(file.tokens, file.header.width, vocab, "fuzz.tokens");
  MNEMON_CHECK(view.size() == file.header.count);
  std::vector<int64_t> tokens;
  const absl::Status read = view.Append(0, view.size(), tokens);
  if (!read.ok()) {
    MNEMON_CHECK(tokens.empty());
    MNEMON_CHECK(read.message().find("fuzz.tokens") != std::string_view::npos);
    return;
  }
  MNEMON_CHECK(static_cast<int64_t>(tokens.size()) == view.size());
  MNEMON_CHECK(std::ranges::all_of(
      tokens, [&](int64_t token) { return 0 <= token && token < vocab; }));
}

void Try(const std::string& bytes) {
  const auto file = ParseTokenFile(bytes);
  if (!file.ok()) {
    MNEMON_CHECK(!file.status().message().empty());
    return;
  }
  CheckTokens(*file);
  const std::string again =
      FormatTokenFileHeader(file->header) + std::string(file->tokens);
  const auto reread = ParseTokenFile(again);
  MNEMON_CHECK(reread.ok());
  MNEMON_CHECK(FormatTokenFileHeader(reread->header) + std::string(reread->tokens) ==
               again);
}

}  // namespace
}  // namespace mnemon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  mnemon::Try(bytes);
  mnemon::MendChecksum(bytes);
  mnemon::Try(bytes);
  return 0;
}
