// SPDX-License-Identifier: MIT
#include "train/data/open_tokenizer.h"

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/files/file.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/checkpoint.h"
#include "model/io/foreign_files.h"
#include "model/io/gguf_files.h"
#include "model/io/other_paths.h"

namespace mnemon {

namespace {

absl::StatusOr<std::string> JsonOf(const ForeignFiles& files, const std::string& path) {
  if (files.tokenizer_json) return *files.tokenizer_json;
  if (files.no_tokenizer.ok()) {
    return absl::FailedPreconditionError(StrCat(Quoted(path), " has no tokenizer"));
  }
  return files.no_tokenizer;
}

absl::StatusOr<std::string> ReadTokenizerJson(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int64_t kMaxBytes = int64_t{64} << 20;
  if (IsGgufFile(path)) {
    MNEMON_ASSIGN_OR_RETURN(const ForeignFiles files, ReadGgufTexts(path));
    if (!files.no_tokenizer.ok()) return Annotated(files.no_tokenizer, Quoted(path));
    return JsonOf(files, path);
  }
  if (const auto found = FindForeignDirectory(path); found.has_value()) {
    MNEMON_ASSIGN_OR_RETURN(const ForeignFiles files, ReadForeignTexts(*found));
    return JsonOf(files, path);
  }
  std::error_code error;
  const bool directory = fs::is_directory(path, error);
  const std::string file = directory ? StrCat(path, "/tokenizer.json") : path;
  if (directory && !fs::exists(file, error)) {
    MNEMON_RETURN_IF_ERROR(CheckOtherTokenizers(path));
    // The tokenizer of a run is in its checkpoints.
    MNEMON_ASSIGN_OR_RETURN(CheckpointFiles files, ReadCheckpoint(path));
    if (files.tokenizer_json) return *std::move(files.tokenizer_json);
    return absl::FailedPreconditionError(
        StrCat(Quoted(path), " has no tokenizer.json"));
  }
  // Files of the hub's cache are links.
  const std::string real = fs::canonical(file, error).string();
  return ReadFile(error ? file : real, kMaxBytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path) {
  MNEMON_ASSIGN_OR_RETURN(const std::string text, ReadTokenizerJson(path));
  auto tokenizer = ParseTokenizer(text);
  if (tokenizer.ok()) return tokenizer;
  return Annotated(tokenizer.status(), Quoted(path));
}

}  // namespace mnemon
