// SPDX-License-Identifier: MIT
#include "model/text/tokenizer.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/file_kind.h"
#include "base/files/json.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "model/text/bpe_tokenizer.h"
#include "model/text/char_tokenizer.h"
#include "model/text/detokenizer.h"
#include "model/text/tokenizer_json.h"
#include "model/text/tokenizer_part.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr char kVersion[] = "1.0";
// Parts of the schema that would change the meaning of a text; ours leave them empty.
constexpr const char* kUnusedParts[] = {"truncation", "padding",       "added_tokens",
                                        "normalizer", "pre_tokenizer", "post_processor",
                                        "decoder"};

absl::Status CheckKeys(const json& object, std::string_view what,
                       std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return TokenizerFault(StrCat("unknown key ", Quoted(key), " in ", what));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseChar(const json& model) {
  MNEMON_RETURN_IF_ERROR(
      CheckKeys(model, "a Char model", {"type", "unknown_characters", "vocab"}));
  UnknownCharacters unknown = UnknownCharacters::kRefuse;
  if (const auto found = model.find("unknown_characters"); found != model.end()) {
    unknown = UnknownCharacters::kAsModel;
    for (const auto one : {UnknownCharacters::kRefuse, UnknownCharacters::kSkip,
                           UnknownCharacters::kReplace}) {
      if (*found == std::string(Name(one))) unknown = one;
    }
    if (unknown == UnknownCharacters::kAsModel) {
      return TokenizerFault("unknown_characters must be refuse, skip or replace");
    }
  }
  const auto vocab = model.find("vocab");
  if (vocab == model.end() || !vocab->is_object() || vocab->empty()) {
    return TokenizerFault("a Char model needs a vocab of at least one entry");
  }
  std::vector<char32_t> characters(vocab->size());
  std::vector<bool> taken(vocab->size());
  for (const auto& [token, id] : vocab->items()) {
    size_t end = 0;
    char32_t character;
    if (!NextCodePoint(token, end, character) || end != token.size()) {
      return TokenizerFault(
          StrCat("vocab entry ", Quoted(token), " is not one character"));
    }
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= characters.size()) {
      return TokenizerFault(StrCat("vocab entry ", Quoted(token),
                                   " must have an id from 0 to ", characters.size() - 1,
                                   ", each used once"));
    }
    const size_t index = id.get<size_t>();
    if (taken[index]) {
      return TokenizerFault(
          StrCat("vocab entry ", Quoted(token), ": id ", index, " is used twice"));
    }
    taken[index] = true;
    characters[index] = character;
  }
  return MakeCharTokenizerOf(characters, unknown);
}

}  // namespace

std::string TokenizerJson(const json& model) {
  nlohmann::ordered_json outer = {{"version", kVersion}};
  for (const char* part : kUnusedParts) outer[part] = nullptr;
  outer["added_tokens"] = nlohmann::ordered_json::array();
  std::string text = outer.dump(2);
  // The model is formatted with its sorted keys, since an ordered object searches all
  // keys at each insert.
  text.erase(text.rfind("\n}"));
  return StrCat(text, ",\n  \"model\": ", model.dump(), "\n}\n");
}

absl::StatusOr<std::string> Tokenizer::Decode(std::span<const int32_t> ids) const {
  std::string bytes;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= size()) {
      return MakeError(
          absl::StatusCode::kInvalidArgument,
          StrCat("token ", ids[i], " at index ", i, " is not in 0..", size() - 1),
          {.reason = "UNKNOWN_TOKEN",
           .metadata = {{"token", StrCat(ids[i])}, {"index", StrCat(i)}}});
    }
    bytes += TokenBytes(ids[i]);
  }
  return bytes;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeWhole(
    std::string_view text) const {
  MNEMON_ASSIGN_OR_RETURN(std::vector<int32_t> ids, Encode(text));
  const std::span<const int32_t> before = before_text(), after = after_text();
  ids.insert(ids.begin(), before.begin(), before.end());
  ids.insert(ids.end(), after.begin(), after.end());
  return ids;
}

std::string Tokenizer::DecodeText(std::span<const int32_t> ids, bool) const {
  Utf8Stream stream;
  std::string text;
  for (const int32_t id : ids) {
    if (id >= 0 && id < size()) text += stream.Push(TokenBytes(id));
  }
  return text + stream.Finish();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(std::string_view text,
                                                          int64_t vocab) {
  MNEMON_ASSIGN_OR_RETURN(const json outer, ParseJson(text, "tokenizer.json"));
  if (!outer.is_object()) return TokenizerFault("not an object");
  if (!outer.contains("model")) {
    const std::optional<FileKind> kind = FindJsonKind(text);
    if (kind && *kind != FileKind::kTokenizerJson) {
      return TokenizerFault(StrCat("it is ", Describe(*kind)));
    }
  }
  MNEMON_RETURN_IF_ERROR(
      CheckKeys(outer, "the file",
                {"version", "truncation", "padding", "added_tokens", "normalizer",
                 "pre_tokenizer", "post_processor", "decoder", "model"}));
  const auto version = outer.find("version");
  if (version == outer.end() || *version != kVersion) {
    return TokenizerFault(StrCat("version must be \"", kVersion, "\", found ",
                                 version == outer.end() ? "none"
                                 : version->is_string()
                                     ? Quoted(version->get<std::string>())
                                     : "no string"));
  }
  const auto model = outer.find("model");
  if (model != outer.end() && model->is_object()) {
    // Older files do not have it.
    const auto type = model->find("type");
    const bool pairs = type == model->end() && model->contains("merges");
    if (pairs || (type != model->end() && *type == "BPE")) {
      return MakeBpeTokenizer(outer, text, vocab);
    }
  }
  if (model == outer.end() || !model->is_object() || !model->contains("type") ||
      !(*model)["type"].is_string()) {
    return TokenizerFault("expected a model with a type");
  }
  const std::string type = (*model)["type"];
  if (type != "Char" && type != "Byte") {
    return TokenizerFault(
        StrCat("model type ", Quoted(type), " is not BPE, Char or Byte"));
  }
  for (const char* part : kUnusedParts) {
    const auto found = outer.find(part);
    if (found != outer.end() && !found->empty()) {
      return TokenizerFault(StrCat(part, " is not supported, it must be empty"));
    }
  }
  if (type == "Char") return ParseChar(*model);
  MNEMON_RETURN_IF_ERROR(CheckKeys(*model, "a Byte model", {"type"}));
  return MakeByteTokenizer();
}

}  // namespace mnemon
