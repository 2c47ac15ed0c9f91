// SPDX-License-Identifier: MIT
#include "model/io/gguf_files.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/mapped_file.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/directory_files.h"
#include "model/io/followed_weights.h"
#include "model/io/gguf_model.h"
#include "model/io/gguf_tokenizer.h"
#include "model/io/gguf_weights.h"

namespace mnemon {
namespace {

// Everything except the model and its weights.
absl::StatusOr<ForeignFiles> TextsOf(const Gguf& gguf) {
  ForeignFiles files;
  absl::StatusOr<std::optional<std::string>> tokenizer = GgufTokenizerJson(gguf);
  files.no_tokenizer = tokenizer.status();
  if (tokenizer.ok()) files.tokenizer_json = *std::move(tokenizer);
  MNEMON_ASSIGN_OR_RETURN(files.tokenizer_config_json, GgufTokenizerConfig(gguf));
  if (const auto* chat = gguf.Find<std::string>("tokenizer.chat_template")) {
    files.chat_template_jinja = *chat;
  }
  return files;
}

// Contents of a file, and its numbers, which are still to be made.
struct OpenedGguf {
  std::shared_ptr<const MappedFile> file;
  ForeignFiles files;  // without the weights
  std::optional<GgufWeights> weights;
};

absl::StatusOr<OpenedGguf> OpenGguf(const std::string& path, MadeNumbers numbers) {
  MNEMON_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  OpenedGguf opened;
  opened.file = std::make_shared<const MappedFile>(std::move(mapped));
  const std::string_view image = opened.file->view();
  MNEMON_ASSIGN_OR_RETURN(const Gguf gguf, ParseGguf(image));
  MNEMON_ASSIGN_OR_RETURN(GgufModel model, ReadGgufModel(gguf, image));
  MNEMON_ASSIGN_OR_RETURN(opened.files, TextsOf(gguf));
  opened.files.config_json = std::move(model.config_json);
  opened.files.generation_config_json = std::move(model.generation_config_json);
  MNEMON_ASSIGN_OR_RETURN(opened.weights,
                          GgufWeights::Make(image, std::move(model.tensors), numbers));
  return opened;
}

absl::StatusOr<ForeignFiles> ReadGguf(const std::string& path) {
  MNEMON_ASSIGN_OR_RETURN(OpenedGguf opened, OpenGguf(path, MadeNumbers::kExact));
  const int64_t size = opened.weights->size();
  if (size > MaxSafetensorsFile()) {
    return absl::ResourceExhaustedError(StrCat("its numbers are ", size,
                                               " bytes, this machine has a memory of ",
                                               MaxSafetensorsFile()));
  }
  MNEMON_ASSIGN_OR_RETURN(FollowedWeights weights,
                          FollowedWeights::Open(GgufWeights::AsFile(
                              *std::move(opened.weights), opened.file)));
  MNEMON_ASSIGN_OR_RETURN(Safetensors tensors, weights.Start());
  ForeignFiles files = std::move(opened.files);
  files.weights = WeightFiles({std::move(tensors)});
  files.verified = VerifyLater(path, {{directory::kWeights, std::move(weights)}},
                               files.config_json, files.tokenizer_json.value_or(""));
  return files;
}

absl::Status WriteWeights(GgufWeights& weights, const std::string& to) {
  constexpr int64_t kPieceBytes = 1 << 20;
  MNEMON_ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(to));
  std::vector<char> piece(static_cast<size_t>(kPieceBytes));
  for (int64_t at = 0; at < weights.size(); at += kPieceBytes) {
    const auto some = static_cast<size_t>(std::min(kPieceBytes, weights.size() - at));
    weights.Write(at, {piece.data(), some});
    MNEMON_RETURN_IF_ERROR(file.Write({piece.data(), some}));
  }
  return file.Publish();
}

absl::Status WriteGguf(const std::string& path, const std::string& dir) {
  MNEMON_ASSIGN_OR_RETURN(OpenedGguf opened, OpenGguf(path, MadeNumbers::kBf16));
  const ForeignFiles& files = opened.files;
  const std::pair<const char*, std::optional<std::string>> kTexts[] = {
      {directory::kConfig, files.config_json},
      {directory::kGeneration, files.generation_config_json},
      {directory::kTokenizer, files.tokenizer_json},
      {directory::kTokenizerConfig, files.tokenizer_config_json},
      {directory::kChatTemplate, files.chat_template_jinja}};
  return WriteDirectoryDurably(dir, [&](const std::string& temporary) -> absl::Status {
    for (const auto& [name, text] : kTexts) {
      if (!text) continue;
      MNEMON_RETURN_IF_ERROR(WriteFileDurably(StrCat(temporary, "/", name), *text));
    }
    return WriteWeights(*opened.weights, StrCat(temporary, "/", directory::kWeights));
  });
}

}  // namespace

bool IsGgufFile(const std::string& path) {
  constexpr size_t kLength = sizeof(kGgufMagic) - 1;
  const auto file = LargeFile::Open(path, std::numeric_limits<int64_t>::max());
  char magic[kLength];
  return file.ok() && file->size() >= static_cast<int64_t>(kLength) &&
         file->Read(0, magic).ok() && std::string_view(magic, kLength) == kGgufMagic;
}

absl::StatusOr<ForeignFiles> ReadGgufFiles(const std::string& path) {
  return CatchOutOfMemory(Quoted(path), [&]() -> absl::StatusOr<ForeignFiles> {
    absl::StatusOr<ForeignFiles> files = ReadGguf(path);
    if (!files.ok()) return Annotated(files.status(), Quoted(path));
    return files;
  });
}

absl::StatusOr<ForeignFiles> ReadGgufTexts(const std::string& path) {
  return CatchOutOfMemory(Quoted(path), [&]() -> absl::StatusOr<ForeignFiles> {
    MNEMON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    const absl::StatusOr<Gguf> gguf = ParseGguf(file.view());
    if (!gguf.ok()) return Annotated(gguf.status(), Quoted(path));
    absl::StatusOr<ForeignFiles> files = TextsOf(*gguf);
    if (!files.ok()) return Annotated(files.status(), Quoted(path));
    return files;
  });
}

absl::Status WriteGgufAsDirectory(const std::string& path, const std::string& dir) {
  std::error_code ignored;
  if (std::filesystem::symlink_status(dir, ignored).type() !=
      std::filesystem::file_type::not_found) {
    return absl::AlreadyExistsError(StrCat(Quoted(dir), " is there already"));
  }
  return CatchOutOfMemory(Quoted(path), [&] {
    const absl::Status written = WriteGguf(path, dir);
    return written.ok() ? written : Annotated(written, Quoted(path));
  });
}

}  // namespace mnemon
