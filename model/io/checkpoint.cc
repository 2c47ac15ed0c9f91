// SPDX-License-Identifier: MIT
#include "model/io/checkpoint.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/directory_files.h"
#include "model/io/followed_weights.h"
#include "model/io/manifest.h"
#include "model/io/other_paths.h"

namespace mnemon {
namespace {

using directory::kConfig;
using directory::kMaxConfigBytes;
using directory::kMaxTokenizerBytes;
using directory::kTokenizer;
using directory::kTokenizerConfig;
using directory::kWeights;

constexpr std::string_view kTraining = "training/";

constexpr int64_t kMaxManifestBytes = 1 << 20;

absl::Status VerifySize(const Manifest& manifest, const std::string& name,
                        int64_t bytes, const std::string& path) {
  const auto entry = manifest.files.find(name);
  if (entry == manifest.files.end()) {
    return absl::DataLossError(StrCat(Quoted(path), " is not in ", kManifest));
  }
  if (bytes != entry->second.bytes) {
    return absl::DataLossError(StrCat(Quoted(path), " has ", bytes, " bytes, ",
                                      kManifest, " says ", entry->second.bytes));
  }
  return absl::OkStatus();
}

absl::Status Verify(const Manifest& manifest, const std::string& name, int64_t bytes,
                    const std::string& sha256, const std::string& path) {
  MNEMON_RETURN_IF_ERROR(VerifySize(manifest, name, bytes, path));
  const std::string& promised = manifest.files.at(name).sha256;
  if (sha256 == promised) return absl::OkStatus();
  return absl::DataLossError(StrCat(Quoted(path), " has SHA-256 ", sha256, ", ",
                                    kManifest, " says ", Quoted(promised)));
}

// A file that matches the manifest, if there is one.
struct Verified {
  std::string bytes;
  std::string sha256;
};

// One opened checkpoint directory with its manifest, if it has one.
class CheckpointReader {
 public:
  static absl::StatusOr<CheckpointReader> Open(const std::string& path) {
    if (IsPickleName(path)) {
      return absl::InvalidArgumentError(
          StrCat(Quoted(path), " is a pickle file by its name; pickle is never read"));
    }
    MNEMON_ASSIGN_OR_RETURN(Directory dir, Directory::Open(path));
    CheckpointReader reader(path, std::move(dir));
    absl::StatusOr<std::string> text = reader.dir_.Read(kManifest, kMaxManifestBytes);
    if (text.ok()) {
      MNEMON_ASSIGN_OR_RETURN(reader.manifest_,
                              ParseManifest(*text, path + "/" + kManifest));
    } else if (!absl::IsNotFound(text.status())) {
      return text.status();
    }
    return reader;
  }

  absl::StatusOr<Verified> Read(const std::string& name, int64_t max_bytes) const {
    MNEMON_ASSIGN_OR_RETURN(std::string content, dir_.Read(name, max_bytes));
    std::string sha256 = Sha256Hex(content);
    MNEMON_RETURN_IF_ERROR(Check(name, static_cast<int64_t>(content.size()), sha256));
    return Verified{std::move(content), std::move(sha256)};
  }

  // A file that must match the manifest only if it is listed there.
  absl::StatusOr<std::string> ReadIfListed(const std::string& name,
                                           int64_t max_bytes) const {
    if (!Promises(name)) return dir_.Read(name, max_bytes);
    MNEMON_ASSIGN_OR_RETURN(Verified file, Read(name, max_bytes));
    return std::move(file.bytes);
  }

  absl::Status Check(const std::string& name, int64_t bytes,
                     const std::string& sha256) const {
    if (!manifest_) return absl::OkStatus();
    return Verify(*manifest_, name, bytes, sha256, path_ + "/" + name);
  }

  absl::Status CheckSize(const std::string& name, int64_t bytes) const {
    if (!manifest_) return absl::OkStatus();
    return VerifySize(*manifest_, name, bytes, path_ + "/" + name);
  }

  bool has_manifest() const { return manifest_.has_value(); }
  bool Promises(const std::string& name) const {
    return manifest_ && manifest_->files.contains(name);
  }
  // Source of an int8 checkpoint, else null.
  const Int8Source* source() const {
    return manifest_ && manifest_->source ? &*manifest_->source : nullptr;
  }
  const Directory& dir() const { return dir_; }

 private:
  CheckpointReader(std::string path, Directory dir)
      : path_(std::move(path)), dir_(std::move(dir)) {}

  std::string path_;
  Directory dir_;
  std::optional<Manifest> manifest_;
};

// An int8 checkpoint has the configuration and the tokenizer, and thus the model_id, of
// its source. Hashes are of those two files; the tokenizer's is empty if there is none.
absl::Status CheckSource(const Int8Source& source, const std::string& config,
                         const std::string& tokenizer, const std::string& dir) {
  const FileHash weights = {kWeights, source.weights_sha256};
  const std::string id = ModelIdOf({&weights, 1}, config, tokenizer);
  if (id == source.model_id) return absl::OkStatus();
  return absl::DataLossError(StrCat(
      Quoted(dir + "/" + kManifest), " names the source model_id ", source.model_id,
      "; its weights with this config.json and tokenizer.json have ", id));
}

absl::StatusOr<CheckpointFiles> ReadOpened(
    const std::shared_ptr<const CheckpointReader>& reader, const std::string& dir) {
  CheckpointFiles files;
  const auto config = reader->Read(kConfig, kMaxConfigBytes);
  if (absl::IsNotFound(config.status())) {
    return ExplainMissing(dir, kConfig, config.status());
  }
  MNEMON_RETURN_IF_ERROR(config.status());
  absl::StatusOr<ModelConfig> parsed = ParseConfig(config->bytes);
  if (!parsed.ok()) {
    const std::string path = dir + "/" + kConfig;
    if (const auto kind = FindJsonKind(config->bytes)) return WrongKind(path, *kind);
    return Annotated(parsed.status(), Quoted(path));
  }
  files.config = *std::move(parsed);
  files.config_json = config->bytes;

  auto tokenizer = reader->Read(kTokenizer, kMaxTokenizerBytes);
  std::string tokenizer_sha256;
  if (tokenizer.ok()) {
    files.tokenizer_json = std::move(tokenizer->bytes);
    tokenizer_sha256 = std::move(tokenizer->sha256);
  } else if (!absl::IsNotFound(tokenizer.status())) {
    return tokenizer.status();
  } else if (reader->Promises(kTokenizer)) {
    return absl::DataLossError(
        StrCat(Quoted(dir), " lacks ", kTokenizer, ", which ", kManifest, " lists"));
  }

  auto tokenizer_config = reader->ReadIfListed(kTokenizerConfig, kMaxConfigBytes);
  if (tokenizer_config.ok()) {
    files.tokenizer_config_json = *std::move(tokenizer_config);
  } else if (!absl::IsNotFound(tokenizer_config.status()) ||
             reader->Promises(kTokenizerConfig)) {
    return tokenizer_config.status();
  }

  if (const Int8Source* source = reader->source(); source != nullptr) {
    MNEMON_RETURN_IF_ERROR(CheckSource(*source, config->sha256, tokenizer_sha256, dir));
    files.int8 = true;
  }

  absl::StatusOr<LargeFile> opened =
      reader->dir().OpenLarge(kWeights, MaxSafetensorsFile());
  if (absl::IsNotFound(opened.status())) {
    return ExplainMissing(dir, kWeights, opened.status());
  }
  if (!opened.ok()) return opened.status();
  const absl::Status kind = CheckFileKind(*opened, FileKind::kSafetensors);
  if (!kind.ok()) {
    return reader->has_manifest() ? absl::DataLossError(kind.message()) : kind;
  }
  MNEMON_RETURN_IF_ERROR(reader->CheckSize(kWeights, opened->size()));
  const int64_t size = opened->size();
  MNEMON_ASSIGN_OR_RETURN(FollowedWeights weights,
                          FollowedWeights::Open(*std::move(opened)));
  const auto verify =
      [reader, size](const FollowedWeights& read) -> absl::StatusOr<std::string> {
    MNEMON_ASSIGN_OR_RETURN(std::string sha256, read.Sha256Hex());
    MNEMON_RETURN_IF_ERROR(reader->Check(kWeights, size, sha256));
    return sha256;
  };
  absl::StatusOr<Safetensors> tensors = weights.Start();
  if (!tensors.ok()) {
    // Only a manifest can show that the file is damaged; without one nothing is read.
    if (reader->has_manifest()) MNEMON_RETURN_IF_ERROR(verify(weights).status());
    return Annotated(tensors.status(), Quoted(dir + "/" + kWeights));
  }
  files.weights = *std::move(tensors);
  files.verified = std::async(
      std::launch::deferred,
      [verify, weights, reader, config = config->sha256, tokenizer = tokenizer_sha256,
       what = StrCat("the hash of ", Quoted(dir + "/" + kWeights))] {
        return CatchOutOfMemory(what, [&]() -> absl::StatusOr<VerifiedWeights> {
          MNEMON_ASSIGN_OR_RETURN(const std::string sha256, verify(weights));
          const Int8Source* source = reader->source();
          const FileHash file = {kWeights, sha256};
          return VerifiedWeights{
              .model_id = source != nullptr ? source->model_id
                                            : ModelIdOf({&file, 1}, config, tokenizer),
              .sha256 = sha256,
              .bad_weights = weights.bad_weights()};
        });
      });
  return files;
}

bool IsCheckpointFileName(const std::string& name) {
  if (name == kConfig || name == kWeights || name == kTokenizer ||
      name == kTokenizerConfig) {
    return true;
  }
  if (!name.starts_with(kTraining) || name.size() == kTraining.size()) return false;
  const std::string below = name.substr(kTraining.size());
  return below.find('/') == std::string::npos && below != "." && below != "..";
}

// A mistyped destination must not destroy a directory of other files.
absl::Status CheckReplaceable(const std::string& dir) {
  absl::StatusOr<Directory> old = Directory::Open(dir);
  if (absl::IsNotFound(old.status())) return absl::OkStatus();
  if (!old.ok()) return old.status();
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names, old->List());
  if (names.empty()) return absl::OkStatus();
  for (const std::string& name : names) {
    if (name == kConfig) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      StrCat(Quoted(dir), " holds files but no checkpoint; not replaced"));
}

// `dir`, or the checkpoint to serve if it is a run.
std::string CheckpointOf(const std::string& dir) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(dir + "/" + kConfig, ignored)) return dir;
  for (const char* const name : {"best", "last"}) {
    std::string inside = StrCat(dir, "/", name);
    if (fs::is_directory(inside, ignored)) return inside;
  }
  return dir;
}

}  // namespace

std::string ModelIdOf(std::span<const FileHash> weights, const std::string& config,
                      const std::string& tokenizer) {
  std::string digests;
  for (const FileHash& file : weights) {
    digests += StrCat(file.name, " ", file.sha256, "\n");
  }
  digests += StrCat(kConfig, " ", config, "\n");
  if (!tokenizer.empty()) digests += StrCat(kTokenizer, " ", tokenizer, "\n");
  return Sha256Hex(digests);
}

absl::StatusOr<CheckpointFiles> ReadCheckpoint(const std::string& given) {
  // A writer that replaces the directory during the read removes files that are still
  // to be read: the error then belongs to the old directory, and the new one is
  // complete.
  constexpr int kAttempts = 8;
  for (int attempt = 1;; ++attempt) {
    const std::string dir = CheckpointOf(given);
    MNEMON_ASSIGN_OR_RETURN(CheckpointReader opened, CheckpointReader::Open(dir));
    const auto reader = std::make_shared<const CheckpointReader>(std::move(opened));
    absl::StatusOr<CheckpointFiles> files = ReadOpened(reader, dir);
    if (files.ok() || attempt == kAttempts || !reader->dir().Replaced()) return files;
  }
}

absl::Status WriteCheckpoint(const std::string& dir, const CheckpointContent& content,
                             const std::optional<Int8Source>& source) {
  Manifest manifest = {.files = {}, .source = source};
  bool training = false;
  for (const auto& [name, bytes] : content) {
    if (!IsCheckpointFileName(name)) {
      return absl::InvalidArgumentError(
          StrCat(Quoted(name), " is not the name of a checkpoint's file"));
    }
    manifest.files[name] = {Sha256Hex(bytes), static_cast<int64_t>(bytes.size())};
    training = training || name.starts_with(kTraining);
  }
  MNEMON_RETURN_IF_ERROR(CheckReplaceable(dir));
  return WriteDirectoryDurably(dir, [&](const std::string& temporary) -> absl::Status {
    if (training) {
      MNEMON_RETURN_IF_ERROR(MakeDirectories(StrCat(temporary, "/", kTraining)));
    }
    for (const auto& [name, bytes] : content) {
      MNEMON_RETURN_IF_ERROR(WriteFileDurably(temporary + "/" + name, bytes));
    }
    return WriteFileDurably(temporary + "/" + kManifest, FormatManifest(manifest));
  });
}

absl::Status NeedsFp32Weights() {
  return absl::FailedPreconditionError(
      "model.safetensors holds int8 weights, with which only step forms on a CPU "
      "compute: the sequence form and training need the fp32 checkpoint that they were "
      "made of");
}

absl::Status RequireFp32(const std::string& dir) {
  MNEMON_ASSIGN_OR_RETURN(const CheckpointReader reader,
                          CheckpointReader::Open(CheckpointOf(dir)));
  if (reader.source() == nullptr) return absl::OkStatus();
  return Annotated(NeedsFp32Weights(), Quoted(dir));
}

absl::StatusOr<std::string> ReadTrainingFile(const std::string& dir,
                                             const std::string& name) {
  MNEMON_ASSIGN_OR_RETURN(const CheckpointReader reader,
                          CheckpointReader::Open(CheckpointOf(dir)));
  MNEMON_ASSIGN_OR_RETURN(auto file,
                          reader.Read(StrCat(kTraining, name), MaxSafetensorsFile()));
  return std::move(file.bytes);
}

}  // namespace mnemon
