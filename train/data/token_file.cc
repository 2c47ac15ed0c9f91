// SPDX-License-Identifier: MIT
#include "train/data/token_file.h"

#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/quote.h"
#include "base/status_macros.h"

namespace mnemon {

absl::StatusOr<std::shared_ptr<const TokenFile>> TokenFile::Open(
    const std::string& path) {
  MNEMON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<ParsedTokenFile> parsed = ParseTokenFile(file.view());
  if (!parsed.ok()) {
    MNEMON_RETURN_IF_ERROR(CheckFileKind(path, FileKind::kTokenFile));
    return Annotated(parsed.status(), Quoted(path));
  }
  return std::shared_ptr<const TokenFile>(
      new TokenFile(std::move(file), *std::move(parsed)));
}

bool BeginsTokenFile(std::string_view bytes) {
  return bytes.starts_with(kTokenFileMagic);
}

bool IsTokenFile(const std::string& path) {
  const auto file = LargeFile::Open(path, std::numeric_limits<int64_t>::max());
  if (!file.ok()) return false;
  std::array<char, kTokenFileMagic.size()> begin;
  return file->Read(0, begin).ok() && BeginsTokenFile({begin.data(), begin.size()});
}

}  // namespace mnemon
