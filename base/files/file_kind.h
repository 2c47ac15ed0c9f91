// SPDX-License-Identifier: MIT
// Known kinds of files, recognised by their first bytes, so that a reader can name a
// file of another kind than its own, and what to do with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/files/file.h"

namespace mnemon {

enum class FileKind {
  // Kinds with a reader in this project.
  kSafetensors,
  kGguf,
  kTokenFile,
  // Kinds without one.
  kGgml,
  kPyTorch,
  kPickle,
  kNpy,
  kNpz,
  kHdf5,
  kOnnx,
  kSavedModel,
  kTfLite,
  kSentencePiece,
  kZip,
  kCompressed,
  kTar,
  kParquet,
  kPdf,
  kUtf16,
  kLfsPointer,
  kWebPage,
  kHubMessage,
  // JSON: see FindJsonKind.
  kTokenizerJson,
  kTokenizerConfig,
  kVocabulary,
  kWeightIndex,
  kGenerationConfig,
  kAdapterConfig,
  kDiffusersConfig,
  kOriginalParams,
  kForeignConfig,
};

// Bytes from the beginning of a file that determine its kind.
inline constexpr int64_t kFileKindBytes = 4096;

// The kind of a file that begins with `begin`, kFileKindBytes of it or all; nothing if
// unknown. JSON is unknown.
std::optional<FileKind> FindFileKind(std::string_view begin);

// The same for JSON, judged by the names of members, which other files may have too:
// only for files that their reader has refused.
std::optional<FileKind> FindJsonKind(std::string_view begin);

// The first kFileKindBytes of a file, or all; empty if it cannot be read.
std::string BeginningOf(const LargeFile& file);

// The kind and what to do, in one line: "a GGUF file: ..".
std::string Describe(FileKind kind);

// INVALID_ARGUMENT: "'x' is a GGUF file: ..".
absl::Status WrongKind(const std::string& path, FileKind kind);

// WrongKind if FindFileKind knows a kind other than `taken`. OK for all other files,
// and if `path`, which may be a link, cannot be read, since its reader reports why.
absl::Status CheckFileKind(const std::string& path, std::optional<FileKind> taken = {});
absl::Status CheckFileKind(const LargeFile& file, std::optional<FileKind> taken = {});

}  // namespace mnemon
