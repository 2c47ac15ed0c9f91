// SPDX-License-Identifier: MIT
#include "model/io/other_paths.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <limits>
#include <system_error>
#include <vector>

#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/directory_files.h"
#include "model/io/safetensors.h"

namespace mnemon {
namespace {

constexpr std::string_view kTakeSafetensors =
    "such weights are not read; take the model with model.safetensors, or a GGUF file";

// Kind of a directory that contains a file of this name.
struct Mark {
  std::string_view name;
  std::string_view what;
  std::string_view advice;
};
constexpr Mark kMarks[] = {
    {"adapter_config.json", "is a PEFT adapter",
     "merge it into its base model, with peft by merge_and_unload(), and save that "
     "model"},
    {"model_index.json", "is a pipeline of diffusers",
     "models of images are not supported"},
    {"saved_model.pb", "is a TensorFlow SavedModel", kTakeSafetensors},
    {"params.json", "is a model in its makers' own format",
     "take the one in the format of Hugging Face, with config.json and "
     "model.safetensors"},
    {"snapshots", "is a model's folder in the hub's cache, with no model at refs/main",
     "give one of the directories in it"},
};

// Message about a directory that contains a file with this ending.
struct Ending {
  std::string_view suffix;
  std::string_view advice;
};
constexpr Ending kEndings[] = {
    {".gguf", "give the path of that file"},
    {".h5", kTakeSafetensors},
    {".keras", kTakeSafetensors},
    {".msgpack", kTakeSafetensors},
    {".onnx", kTakeSafetensors},
    {".tflite", kTakeSafetensors},
    {".safetensors",
     "a model's directory has model.safetensors, or the files that "
     "model.safetensors.index.json names"},
};

constexpr std::string_view kTokenizerFiles[] = {
    "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
    "source.spm",      "vocab.json",   "merges.txt",
    "vocab.txt",       "tekken.json"};

// Names in a directory, sorted; none if it cannot be listed.
std::vector<std::string> NamesIn(const std::string& dir) {
  const auto opened = Directory::Open(dir);
  if (!opened.ok()) return {};
  std::vector<std::string> names = opened->List().value_or(std::vector<std::string>());
  std::ranges::sort(names);
  return names;
}

// The newest checkpoint of a training with transformers, such as "checkpoint-500"; else
// empty.
std::string NewestCheckpoint(const std::vector<std::string>& names) {
  constexpr std::string_view kPrefix = "checkpoint-";
  std::string newest;
  int64_t most = -1;
  for (const std::string& name : names) {
    if (!name.starts_with(kPrefix)) continue;
    const char* const end = name.data() + name.size();
    int64_t step = -1;
    const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
    if (error != std::errc() || stop != end || step <= most) continue;
    most = step;
    newest = name;
  }
  return newest;
}

}  // namespace

absl::Status CheckIsDirectory(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return absl::OkStatus();
  MNEMON_ASSIGN_OR_RETURN(const LargeFile file,
                          LargeFile::Open(path, std::numeric_limits<int64_t>::max()));
  const std::string begin = BeginningOf(file);
  if (const auto kind = FindFileKind(begin)) return WrongKind(path, *kind);
  if (IsPickleName(path)) return WrongKind(path, FileKind::kPyTorch);
  if (const auto kind = FindJsonKind(begin)) return WrongKind(path, *kind);
  return absl::InvalidArgumentError(
      StrCat(Quoted(path), " is not a directory and no GGUF file, as models are"));
}

absl::Status ExplainMissing(const std::string& dir, std::string_view missing,
                            const absl::Status& status) {
  const std::vector<std::string> names = NamesIn(dir);
  for (const Mark& mark : kMarks) {
    if (!std::ranges::binary_search(names, mark.name, std::less<>())) continue;
    return absl::InvalidArgumentError(
        StrCat(Quoted(dir), " ", mark.what, " (", mark.name, "): ", mark.advice));
  }
  if (const std::string newest = NewestCheckpoint(names); !newest.empty()) {
    return absl::InvalidArgumentError(StrCat(
        Quoted(dir), " is a folder of checkpoints of transformers: give one, as ",
        Quoted(StrCat(dir, "/", newest))));
  }
  for (const std::string& name : names) {
    if (!IsPickleName(name)) continue;
    return absl::InvalidArgumentError(
        StrCat(Quoted(dir), " holds ", Quoted(name), " but no ", missing,
               "; pickle is never read: convert it to safetensors, with transformers "
               "by model.save_pretrained(DIR, safe_serialization=True)"));
  }
  for (const Ending& ending : kEndings) {
    for (const std::string& name : names) {
      if (!name.ends_with(ending.suffix) || name == directory::kWeights) continue;
      return absl::InvalidArgumentError(StrCat(Quoted(dir), " holds ", Quoted(name),
                                               " but no ", missing, ": ",
                                               ending.advice));
    }
  }
  return status;
}

absl::Status CheckOtherTokenizers(const std::string& dir) {
  std::vector<std::string> found;
  for (const std::string& name : NamesIn(dir)) {
    if (std::ranges::count(kTokenizerFiles, name) > 0 || name.ends_with(".tiktoken")) {
      found.push_back(Quoted(name));
    }
  }
  if (found.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      StrCat(Quoted(dir), " has no tokenizer.json but ", StrJoin(found, ", "),
             ": make one of it, with transformers by "
             "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"));
}

}  // namespace mnemon
