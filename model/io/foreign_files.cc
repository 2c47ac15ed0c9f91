// SPDX-License-Identifier: MIT
#include "model/io/foreign_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/files/json.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/directory_files.h"
#include "model/io/followed_weights.h"
#include "model/io/other_paths.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

using directory::kChatTemplate;
using directory::kConfig;
using directory::kGeneration;
using directory::kMaxConfigBytes;
using directory::kMaxTokenizerBytes;
using directory::kTokenizer;
using directory::kTokenizerConfig;
using directory::kWeights;

constexpr char kIndex[] = "model.safetensors.index.json";

constexpr int64_t kMaxIndexBytes = 16 << 20;
constexpr size_t kMostShards = 1024;

// The files of a directory, found through links.
class Folder {
 public:
  explicit Folder(const std::string& dir) : dir_(dir) {
    std::error_code ignored;
    root_ = fs::canonical(dir, ignored);
    // Other folders of that name have no known structure.
    const fs::path model = root_.parent_path().parent_path();
    if (root_.parent_path().filename() == "snapshots" &&
        fs::is_directory(model / "blobs", ignored)) {
      root_ = model;
    }
  }

  std::string Shown(const std::string& name) const { return StrCat(dir_, "/", name); }

  // The real path of a file. NOT_FOUND.
  absl::StatusOr<std::string> Locate(const std::string& name) const {
    const std::string path = Shown(name);
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error) {
      return absl::NotFoundError(
          StrCat("cannot open ", Quoted(path), ": ", error.message()));
    }
    const auto [left, unused] =
        std::mismatch(root_.begin(), root_.end(), real.begin(), real.end());
    if (left == root_.end()) return real.string();
    return absl::InvalidArgumentError(
        StrCat(Quoted(path), " leads to ", Quoted(real.string()),
               ", outside of the model's folder ", Quoted(root_.string())));
  }

  absl::StatusOr<std::string> Read(const std::string& name, int64_t max_bytes) const {
    MNEMON_ASSIGN_OR_RETURN(const std::string real, Locate(name));
    return ReadFile(real, max_bytes);
  }

  absl::StatusOr<std::optional<std::string>> ReadIfThere(const std::string& name,
                                                         int64_t max_bytes) const {
    absl::StatusOr<std::string> text = Read(name, max_bytes);
    if (text.ok()) return *std::move(text);
    if (absl::IsNotFound(text.status())) return std::nullopt;
    return text.status();
  }

 private:
  const std::string dir_;
  fs::path root_;
};

// File of each tensor according to the index, by name.
using Places = std::map<std::string, std::string>;

absl::StatusOr<Places> ReadPlaces(const std::string& text) {
  MNEMON_ASSIGN_OR_RETURN(const nlohmann::json json,
                          ParseJson(text, kIndex, {.max_depth = 8}));
  const auto at = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || at == json.end() || !at->is_object() || at->empty()) {
    return absl::InvalidArgumentError("holds no weight_map: tensor names and files");
  }
  Places places;
  for (const auto& [tensor, file] : at->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : file.dump();
    const bool plain = file.is_string() && name.ends_with(".safetensors") &&
                       name.find('/') == std::string::npos;
    if (!plain) {
      return absl::InvalidArgumentError(
          StrCat("places tensor ", Quoted(tensor), " in ", Quoted(name),
                 ", which is not the name of a safetensors file of this directory"));
    }
    places.emplace(tensor, name);
  }
  return places;
}

// Checks that every tensor is where the index says.
absl::Status CheckPlaces(const Places& places,
                         const std::map<std::string, const Safetensors*>& files) {
  for (const auto& [tensor, file] : places) {
    if (files.at(file)->Find(tensor) != nullptr) continue;
    return absl::InvalidArgumentError(StrCat("places tensor ", Quoted(tensor), " in ",
                                             Quoted(file), ", which does not hold it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ForeignFiles> ReadTexts(const Folder& folder, const std::string& dir) {
  ForeignFiles files;
  MNEMON_ASSIGN_OR_RETURN(files.config_json, folder.Read(kConfig, kMaxConfigBytes));
  MNEMON_ASSIGN_OR_RETURN(files.generation_config_json,
                          folder.ReadIfThere(kGeneration, kMaxConfigBytes));
  MNEMON_ASSIGN_OR_RETURN(files.tokenizer_json,
                          folder.ReadIfThere(kTokenizer, kMaxTokenizerBytes));
  if (!files.tokenizer_json) files.no_tokenizer = CheckOtherTokenizers(dir);
  MNEMON_ASSIGN_OR_RETURN(files.tokenizer_config_json,
                          folder.ReadIfThere(kTokenizerConfig, kMaxTokenizerBytes));
  MNEMON_ASSIGN_OR_RETURN(files.chat_template_jinja,
                          folder.ReadIfThere(kChatTemplate, kMaxConfigBytes));
  MNEMON_ASSIGN_OR_RETURN(
      files.chat_template_json,
      folder.ReadIfThere(directory::kChatTemplateJson, kMaxConfigBytes));
  return files;
}

absl::StatusOr<ForeignFiles> Read(const std::string& dir) {
  const Folder folder(dir);
  MNEMON_ASSIGN_OR_RETURN(ForeignFiles files, ReadTexts(folder, dir));
  Places places;
  std::set<std::string> names = {kWeights};
  if (const absl::Status whole = folder.Locate(kWeights).status(); !whole.ok()) {
    if (!absl::IsNotFound(whole)) return whole;
    MNEMON_ASSIGN_OR_RETURN(const std::optional<std::string> index,
                            folder.ReadIfThere(kIndex, kMaxIndexBytes));
    if (!index) return ExplainMissing(dir, kWeights, whole);
    absl::StatusOr<Places> read = ReadPlaces(*index);
    if (!read.ok()) return Annotated(read.status(), Quoted(folder.Shown(kIndex)));
    places = *std::move(read);
    names.clear();
    for (const auto& [tensor, file] : places) names.insert(file);
    if (names.size() > kMostShards) {
      return absl::InvalidArgumentError(StrCat(Quoted(folder.Shown(kIndex)), " names ",
                                               names.size(), " files, more than ",
                                               kMostShards));
    }
  }

  std::vector<FollowedFile> shards;
  std::vector<Safetensors> opened;
  for (const std::string& name : names) {
    MNEMON_ASSIGN_OR_RETURN(const std::string real, folder.Locate(name));
    MNEMON_ASSIGN_OR_RETURN(LargeFile file,
                            LargeFile::Open(real, MaxSafetensorsFile()));
    const std::optional<FileKind> kind = FindFileKind(BeginningOf(file));
    if (kind && *kind != FileKind::kSafetensors) {
      return WrongKind(folder.Shown(name), *kind);
    }
    MNEMON_ASSIGN_OR_RETURN(FollowedWeights weights,
                            FollowedWeights::Open(std::move(file)));
    absl::StatusOr<Safetensors> tensors = weights.Start();
    if (!tensors.ok()) return Annotated(tensors.status(), Quoted(folder.Shown(name)));
    opened.push_back(*std::move(tensors));
    shards.push_back({name, std::move(weights)});
  }
  std::map<std::string, const Safetensors*> by_name;
  for (size_t i = 0; i < opened.size(); ++i) {
    by_name[shards[i].name] = &opened[i];
  }
  if (const absl::Status fits = CheckPlaces(places, by_name); !fits.ok()) {
    return Annotated(fits, Quoted(folder.Shown(kIndex)));
  }
  files.weights = WeightFiles(std::move(opened));
  files.verified = VerifyLater(dir, std::move(shards), files.config_json,
                               files.tokenizer_json.value_or(""));
  return files;
}

}  // namespace

std::optional<std::string> FindForeignDirectory(const std::string& given) {
  std::string dir = given;
  std::error_code ignored;
  if (!fs::exists(Folder(dir).Shown(kConfig), ignored)) {
    constexpr int64_t kMaxRevisionBytes = 256;
    const absl::StatusOr<std::string> revision =
        ReadFile(StrCat(given, "/refs/main"), kMaxRevisionBytes);
    if (!revision.ok() || revision->find('/') != std::string::npos) return std::nullopt;
    dir = StrCat(given, "/snapshots/", revision->substr(0, revision->find('\n')));
  }
  const absl::StatusOr<std::string> config = Folder(dir).Read(kConfig, kMaxConfigBytes);
  // Our own configurations have no such key. The file is parsed in full later, with
  // more specific errors.
  const bool foreign =
      config.ok() && config->find("\"model_type\"") != std::string::npos;
  if (!foreign) return std::nullopt;
  return dir;
}

absl::StatusOr<ForeignFiles> ReadForeignFiles(const std::string& dir) {
  return CatchOutOfMemory(Quoted(dir), [&] { return Read(dir); });
}

absl::StatusOr<ForeignFiles> ReadForeignTexts(const std::string& dir) {
  return CatchOutOfMemory(Quoted(dir), [&] { return ReadTexts(Folder(dir), dir); });
}

}  // namespace mnemon
