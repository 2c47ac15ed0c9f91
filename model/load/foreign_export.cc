// SPDX-License-Identifier: MIT
#include "model/load/foreign_export.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/families/families.h"
#include "model/families/foreign.h"
#include "model/io/directory_files.h"
#include "model/io/foreign_files.h"
#include "model/io/gguf_files.h"
#include "model/io/safetensors.h"
#include "model/load/model_files.h"
#include "model/text/bpe.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Texts of the directory, by file name.
using Texts = std::map<std::string, std::string>;

const std::map<std::string, std::string>& Metadata() {
  static const std::map<std::string, std::string> kFormat = {{"format", "pt"}};
  return kFormat;
}

// Writes the tensors of `file` unchanged, in order.
absl::Status WriteTensors(const Safetensors& file, const std::string& to) {
  std::vector<TensorToWrite> tensors;
  for (const TensorInfo& tensor : file.header().tensors) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, file.Bytes(tensor)});
  }
  MNEMON_ASSIGN_OR_RETURN(const std::string header,
                          FormatSafetensorsHeader(tensors, Metadata()));
  MNEMON_ASSIGN_OR_RETURN(DurableFile out, DurableFile::Create(to));
  MNEMON_RETURN_IF_ERROR(out.Write(header));
  for (const TensorToWrite& tensor : tensors) {
    MNEMON_RETURN_IF_ERROR(out.Write(tensor.data));
  }
  return out.Publish();
}

absl::Status WriteWeightsOf(const WeightFiles& weights, const std::string& dir) {
  const std::span<const Safetensors> files = weights.files();
  if (files.size() == 1) {
    return WriteTensors(files[0], StrCat(dir, "/", directory::kWeights));
  }
  ordered_json index = {{"metadata", {{"total_size", weights.bytes()}}},
                        {"weight_map", ordered_json::object()}};
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name =
        absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, files.size());
    for (const TensorInfo& tensor : files[i].header().tensors) {
      index["weight_map"][tensor.name] = name;
    }
    MNEMON_RETURN_IF_ERROR(WriteTensors(files[i], StrCat(dir, "/", name)));
  }
  return WriteFileDurably(StrCat(dir, "/", directory::kWeights, ".index.json"),
                          index.dump(2) + "\n");
}

absl::Status WriteTexts(const Texts& texts, const std::string& dir) {
  for (const auto& [name, text] : texts) {
    MNEMON_RETURN_IF_ERROR(WriteFileDurably(StrCat(dir, "/", name), text));
  }
  return absl::OkStatus();
}

absl::Status ExportDirectory(const std::string& path, const std::string& dir) {
  MNEMON_ASSIGN_OR_RETURN(ForeignFiles files, ReadForeignFiles(path));
  MNEMON_RETURN_IF_ERROR(files.verified.get().status());
  Texts texts = {{directory::kConfig, files.config_json}};
  const std::pair<const char*, const std::optional<std::string>*> more[] = {
      {directory::kGeneration, &files.generation_config_json},
      {directory::kTokenizer, &files.tokenizer_json},
      {directory::kTokenizerConfig, &files.tokenizer_config_json},
      {directory::kChatTemplate, &files.chat_template_jinja},
      {directory::kChatTemplateJson, &files.chat_template_json}};
  for (const auto& [name, text] : more) {
    if (*text) texts[name] = **text;
  }
  return WriteDirectoryDurably(dir, [&](const std::string& to) -> absl::Status {
    MNEMON_RETURN_IF_ERROR(WriteTexts(texts, to));
    return WriteWeightsOf(files.weights, to);
  });
}

// A tokenizer of characters or bytes is a byte pair tokenizer without merges.
std::string TokenizerOf(const Tokenizer& tokenizer) {
  if (!tokenizer.divides()) return tokenizer.ToJson();
  const bool bytes = tokenizer.ToJson() == MakeByteTokenizer()->ToJson();
  ordered_json vocab = ordered_json::object();
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string token = bytes ? CharacterOfByte(static_cast<uint8_t>(id))
                                    : std::string(tokenizer.TokenBytes(id));
    vocab[token] = id;
  }
  const ordered_json level = {{"type", "ByteLevel"},
                              {"add_prefix_space", false},
                              {"trim_offsets", true},
                              {"use_regex", false}};
  const ordered_json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", ordered_json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", bytes ? level : ordered_json()},
      {"post_processor", nullptr},
      {"decoder", bytes ? level : ordered_json{{"type", "Fuse"}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", std::move(vocab)},
        {"merges", ordered_json::array()}}}};
  return file.dump(1) + "\n";
}

// The file's tensors from which ours are made, filled in from ours.
absl::StatusOr<std::vector<std::pair<TensorSource, std::string>>> TakeApart(
    const ModelFiles& files, const ForeignModel& foreign) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(float));
  std::vector<std::pair<TensorSource, std::string>> made;
  std::map<std::string, size_t, std::less<>> places;
  for (const TensorRecipe& recipe : foreign.tensors) {
    const WeightFiles::Found found = files.weights.Find(recipe.ours);
    if (found.info == nullptr || found.info->dtype != DType::kF32 ||
        found.info->shape != recipe.shape) {
      return absl::InternalError(StrCat("tensor ", Quoted(recipe.ours), " is missing"));
    }
    int64_t width = 1;
    for (size_t i = 1; i < recipe.shape.size(); ++i) width *= recipe.shape[i];
    const char* from = found.data;
    for (const TensorSource& source : recipe.from) {
      const auto [place, fresh] = places.emplace(source.name, made.size());
      if (fresh) {
        int64_t count = 1;
        for (const int64_t size : source.shape) count *= size;
        made.emplace_back(source,
                          std::string(static_cast<size_t>(count * kSize), '\0'));
      }
      char* const to = made[place->second].second.data();
      if (!source.transposed) {
        std::memcpy(to + source.first * width * kSize, from,
                    static_cast<size_t>(source.rows * width * kSize));
      } else {
        const int64_t columns = source.shape[1];
        for (int64_t r = 0; r < source.rows; ++r) {
          for (int64_t c = 0; c < width; ++c) {
            std::memcpy(to + (c * columns + source.first + r) * kSize,
                        from + (r * width + c) * kSize, static_cast<size_t>(kSize));
          }
        }
      }
      from += source.rows * width * kSize;
    }
  }
  return made;
}

absl::Status ExportOwn(const ModelFiles& files, const std::string& dir) {
  MNEMON_ASSIGN_OR_RETURN(const Family* const family,
                          FindFamily(files.config->architecture));
  if (family->as_foreign == nullptr) {
    return absl::InvalidArgumentError(
        StrCat("no model_type of Hugging Face describes the architecture ",
               Quoted(files.architecture)));
  }
  if (files.int8) {
    return absl::InvalidArgumentError(
        "the weights are int8: export the checkpoint that they were made of");
  }
  const std::string config = family->as_foreign(*files.config);
  MNEMON_ASSIGN_OR_RETURN(const ForeignModel foreign, ReadForeignModel(config));
  ModelDescription ours = files.description;
  ours.dropout = 0;  // only for training
  if (foreign.description != ours) {
    return absl::InvalidArgumentError(
        "no model_type of Hugging Face describes this model: its context has no limit, "
        "or a setting is its own");
  }
  MNEMON_RETURN_IF_ERROR(files.weights.Finish());
  MNEMON_ASSIGN_OR_RETURN(const auto tensors, TakeApart(files, foreign));
  std::vector<TensorToWrite> all;
  for (const auto& [source, bytes] : tensors) {
    all.push_back({source.name, DType::kF32, source.shape, bytes});
  }
  MNEMON_ASSIGN_OR_RETURN(const std::string image, FormatSafetensors(all, Metadata()));
  Texts texts = {{directory::kConfig, config}, {directory::kWeights, image}};
  if (files.tokenizer != nullptr) {
    texts[directory::kTokenizer] = TokenizerOf(*files.tokenizer);
    texts[directory::kTokenizerConfig] =
        ordered_json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"model_max_length", files.description.context}}
            .dump(2) +
        "\n";
  }
  return WriteDirectoryDurably(
      dir, [&](const std::string& to) { return WriteTexts(texts, to); });
}

}  // namespace

absl::Status ExportToHuggingFace(const std::string& path, const std::string& dir) {
  std::error_code ignored;
  if (fs::symlink_status(dir, ignored).type() != fs::file_type::not_found) {
    return absl::AlreadyExistsError(StrCat(Quoted(dir), " is there already"));
  }
  MNEMON_ASSIGN_OR_RETURN(ModelFiles files, ReadModelFiles(path));
  MNEMON_RETURN_IF_ERROR(files.verified.get().status());
  if (files.config) {
    const absl::Status done = ExportOwn(files, dir);
    return done.ok() ? done : Annotated(done, Quoted(path));
  }
  if (IsGgufFile(path)) return WriteGgufAsDirectory(path, dir);
  return ExportDirectory(FindForeignDirectory(path).value_or(path), dir);
}

}  // namespace mnemon
