// SPDX-License-Identifier: MIT
#include "train/data/token_file_header.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/check.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kVersion = 1;
constexpr uint64_t kTokenAlignment = 64;
constexpr uint64_t kMaxTokenizerBytes = uint64_t{64} << 20;

// The fixed part, as it lies in the file.
struct Fixed {
  char magic[8];
  uint32_t version;
  uint32_t width;
  uint64_t count;
  uint32_t vocab;
  uint32_t tokenizer_bytes;
  char content[32];  // SHA-256
  char header[32];   // SHA-256 of all other bytes before the tokens
};
constexpr size_t kChecked = 64;  // bytes before `header`
static_assert(sizeof(Fixed) == 96 && offsetof(Fixed, header) == kChecked);

std::string HeaderDigest(std::string_view header) {
  Sha256 hash;
  hash.Update(header.substr(0, kChecked));
  hash.Update(header.substr(sizeof(Fixed)));
  return absl::HexStringToBytes(hash.HexDigest());
}

uint64_t HeaderBytes(uint64_t tokenizer_bytes) {
  return (sizeof(Fixed) + tokenizer_bytes + kTokenAlignment - 1) / kTokenAlignment *
         kTokenAlignment;
}

absl::Status CheckShape(const Fixed& fixed, const Tokenizer& tokenizer) {
  if (fixed.width != 1 && fixed.width != 2 && fixed.width != 4) {
    return absl::InvalidArgumentError(
        StrCat("its tokens have ", fixed.width, " bytes each, not 1, 2 or 4"));
  }
  if (fixed.vocab != static_cast<uint32_t>(tokenizer.size())) {
    return absl::InvalidArgumentError(StrCat("its vocabulary has ", fixed.vocab,
                                             " tokens and its tokenizer ",
                                             tokenizer.size()));
  }
  if (static_cast<uint32_t>(WidthFor(fixed.vocab)) > fixed.width) {
    return absl::InvalidArgumentError(
        StrCat("tokens of ", fixed.width, " bytes are too short for a vocabulary of ",
               fixed.vocab));
  }
  return absl::OkStatus();
}

absl::Status CheckLength(const Fixed& fixed, uint64_t tokens) {
  uint64_t wanted = 0;
  if (!__builtin_mul_overflow(fixed.count, fixed.width, &wanted) && wanted == tokens) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      StrCat("it was ", tokens < wanted ? "cut short" : "added to",
             ": its header announces ", fixed.count, " tokens of ", fixed.width,
             " bytes, the file has ", tokens, " bytes of tokens"));
}

}  // namespace

std::string FormatTokenFileHeader(const TokenFileHeader& header) {
  const std::string json = header.tokenizer->ToJson();
  MNEMON_CHECK(json.size() <= kMaxTokenizerBytes && header.sha256.size() == 64);
  Fixed fixed = {.magic = {},
                 .version = kVersion,
                 .width = static_cast<uint32_t>(header.width),
                 .count = static_cast<uint64_t>(header.count),
                 .vocab = static_cast<uint32_t>(header.tokenizer->size()),
                 .tokenizer_bytes = static_cast<uint32_t>(json.size()),
                 .content = {},
                 .header = {}};
  std::memcpy(fixed.magic, kTokenFileMagic.data(), sizeof(fixed.magic));
  const std::string content = absl::HexStringToBytes(header.sha256);
  std::memcpy(fixed.content, content.data(), sizeof(fixed.content));
  std::string bytes(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
  bytes += json;
  bytes.resize(HeaderBytes(json.size()));
  bytes.replace(kChecked, sizeof(fixed.header), HeaderDigest(bytes));
  return bytes;
}

absl::StatusOr<ParsedTokenFile> ParseTokenFile(std::string_view bytes) {
  if (!bytes.starts_with(kTokenFileMagic)) {
    return absl::InvalidArgumentError("it does not begin like a token file");
  }
  Fixed fixed;
  if (bytes.size() < sizeof(fixed)) {
    return absl::DataLossError(StrCat("it was cut short: a header has ", sizeof(fixed),
                                      " bytes or more, and ", bytes.size(),
                                      " are there"));
  }
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  if (fixed.version != kVersion) {
    return absl::InvalidArgumentError(StrCat("it has version ", fixed.version,
                                             " of the format, this program reads ",
                                             kVersion));
  }
  const uint64_t size = HeaderBytes(fixed.tokenizer_bytes);
  if (fixed.tokenizer_bytes > kMaxTokenizerBytes || size > bytes.size()) {
    return absl::DataLossError(
        StrCat("it was cut short or is damaged: its header says "
               "that it has ",
               size, " bytes itself, the file has ", bytes.size()));
  }
  const std::string_view header = bytes.substr(0, size);
  if (HeaderDigest(header) != std::string_view(fixed.header, sizeof(fixed.header))) {
    return absl::DataLossError("its header is damaged: the checksum does not match");
  }
  ParsedTokenFile parsed;
  MNEMON_ASSIGN_OR_RETURN(
      parsed.header.tokenizer,
      ParseTokenizer(header.substr(sizeof(fixed), fixed.tokenizer_bytes)));
  MNEMON_RETURN_IF_ERROR(CheckShape(fixed, *parsed.header.tokenizer));
  parsed.tokens = bytes.substr(size);
  MNEMON_RETURN_IF_ERROR(CheckLength(fixed, parsed.tokens.size()));
  parsed.header.width = static_cast<TokenWidth>(fixed.width);
  parsed.header.count = static_cast<int64_t>(fixed.count);
  parsed.header.sha256 = absl::BytesToHexString({fixed.content, sizeof(fixed.content)});
  return parsed;
}

}  // namespace mnemon
