// SPDX-License-Identifier: MIT
#include "model/text/bpe_tokenizer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/hash/hash.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "model/text/added_tokens.h"
#include "model/text/bpe.h"
#include "model/text/detokenizer.h"
#include "model/text/normalizer.h"
#include "model/text/pre_tokenizer.h"
#include "model/text/tokenizer_part.h"

namespace mnemon {
namespace {

// The byte that <0x00> .. <0xFF> stands for; -1 for other tokens.
int ByteOf(std::string_view token) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

// Decoder from tokens to text.
struct TokenDecoder {
  bool byte_level = false;     // tokens are bytes, see BytesOfToken
  bool byte_fallback = false;  // <0xXX> are bytes
  bool joined = true;          // without blanks between them
  std::vector<std::pair<std::string, std::string>> replaced;
  std::string strip;          // character that is stripped from the start of the text,
  int64_t most = 0;           // at most this many times
  std::string first_without;  // removed from the first token

  absl::Status Add(TokenizerPart part, int depth);
  std::string BytesOf(std::string_view token) const;
};

absl::Status TokenDecoder::Add(TokenizerPart part, int depth) {
  const std::string type = part.type();
  if (type == "Sequence") {
    if (depth == kMostNested) part.Refuse("is nested too deeply");
    for (TokenizerPart& item : part.Items("decoders")) {
      MNEMON_RETURN_IF_ERROR(Add(std::move(item), depth + 1));
    }
  } else if (type == "ByteLevel") {
    for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      part.Ignore(key);
    }
    byte_level = true;
  } else if (type == "ByteFallback") {
    byte_fallback = true;
  } else if (type == "Fuse") {
  } else if (type == "Replace") {
    MNEMON_ASSIGN_OR_RETURN(const TextPattern pattern, ReadPattern(part));
    const auto* const text = std::get_if<std::string>(&pattern);
    if (text == nullptr || text->empty()) {
      part.Refuse("replaces what is not a text");
    } else {
      replaced.emplace_back(*text, part.Text("content"));
    }
  } else if (type == "Strip") {
    strip = part.Text("content");
    most = part.Integer("start");
    if (strip.size() != 1 || most < 0 || part.Integer("stop") != 0) {
      part.Refuse("strips more than one kind of character at the start");
    }
  } else if (type == "Metaspace") {
    const std::string mark = part.Text("replacement", "\xE2\x96\x81");
    const bool prefix = part.Flag("add_prefix_space", true);
    replaced.emplace_back(mark, " ");
    part.Ignore("split");
    part.Ignore("str_rep");
    if (part.Text("prepend_scheme", prefix ? "always" : "never") != "never") {
      first_without = mark;
    }
  } else {
    part.Refuse(StrCat("is of type ", Quoted(type),
                       ", supported: ByteFallback, ByteLevel, Fuse, Metaspace, "
                       "Replace, Sequence, Strip"));
  }
  return part.status();
}

std::string TokenDecoder::BytesOf(std::string_view token) const {
  if (byte_level) return BytesOfToken(token);
  std::string text(token);
  for (const auto& [from, to] : replaced)
    text = absl::StrReplaceAll(text, {{from, to}});
  const int byte = byte_fallback ? ByteOf(text) : -1;
  return byte < 0 ? text : std::string(1, static_cast<char>(byte));
}

class BpeTokenizer final : public Tokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Make(const nlohmann::json& json,
                                                         std::string_view text,
                                                         int64_t vocab) {
    std::unique_ptr<BpeTokenizer> made(new BpeTokenizer(text));
    MNEMON_RETURN_IF_ERROR(made->Read(json));
    const auto count = static_cast<int64_t>(made->bytes_.size());
    if (vocab > 0 && count > vocab) {
      return TokenizerFault(StrCat(count, " tokens, the model has ", vocab));
    }
    if (vocab > 0) {
      made->bytes_.resize(static_cast<size_t>(vocab));
      made->special_.resize(static_cast<size_t>(vocab));
    }
    return made;
  }

  int32_t size() const override { return static_cast<int32_t>(bytes_.size()); }
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override;
  std::string_view TokenBytes(int32_t id) const override {
    return bytes_[static_cast<size_t>(id)];
  }
  std::string Describe() const override {
    return StrCat("byte pairs of ", pre_.byte_level() ? "bytes" : "characters", ", ",
                  added_.size(), " added tokens");
  }
  std::string ToJson() const override { return json_; }
  std::span<const int32_t> before_text() const override { return before_; }
  std::span<const int32_t> after_text() const override { return after_; }
  bool divides() const override { return false; }
  bool special(int32_t id) const override { return special_[static_cast<size_t>(id)]; }
  std::string DecodeText(std::span<const int32_t> ids, bool special) const override;

 private:
  explicit BpeTokenizer(std::string_view json) : json_(json) {}
  absl::Status Read(const nlohmann::json& json);
  absl::Status ReadAdded(const nlohmann::json& json);
  absl::Status ReadPostProcessor(TokenizerPart part, int depth);
  absl::StatusOr<std::vector<int32_t>> ReadSpecials(TokenizerPart& part,
                                                    const nlohmann::json& item) const;
  absl::Status EncodeText(std::string_view text, bool first,
                          std::vector<int32_t>& ids) const;

  const std::string json_;
  std::vector<AddedToken> added_;
  AddedTokens raw_, normalised_;
  Normalizer normalizer_;
  PreTokenizer pre_;
  std::optional<Bpe> bpe_;
  TokenDecoder decoder_;
  std::vector<int32_t> before_, after_;  // around a whole text
  std::vector<std::string> tokens_;      // by id, as in the file
  std::vector<std::string> bytes_;       // by id, what they stand for
  std::vector<bool> special_;            // by id
};

absl::Status BpeTokenizer::Read(const nlohmann::json& json) {
  const auto part = [&](const char* key) {
    const auto found = json.find(key);
    return found == json.end() ? nlohmann::json() : *found;
  };
  for (const char* const key : {"truncation", "padding"}) {
    if (!part(key).is_null()) return TokenizerFault(StrCat(key, " is not supported"));
  }
  MNEMON_ASSIGN_OR_RETURN(normalizer_, Normalizer::Parse(part("normalizer")));
  MNEMON_ASSIGN_OR_RETURN(pre_, PreTokenizer::Parse(part("pre_tokenizer")));
  MNEMON_ASSIGN_OR_RETURN(Bpe bpe, Bpe::Parse(json["model"], pre_.byte_level()));
  bpe_.emplace(std::move(bpe));
  tokens_ = bpe_->tokens();
  if (!part("added_tokens").is_null()) {
    MNEMON_RETURN_IF_ERROR(ReadAdded(part("added_tokens")));
  }
  if (!part("post_processor").is_null()) {
    MNEMON_RETURN_IF_ERROR(
        ReadPostProcessor(TokenizerPart(json["post_processor"], "post_processor"), 0));
  }
  decoder_.joined = !part("decoder").is_null();
  if (decoder_.joined) {
    MNEMON_RETURN_IF_ERROR(decoder_.Add(TokenizerPart(json["decoder"], "decoder"), 0));
  }
  special_.resize(tokens_.size());
  for (const AddedToken& token : added_) {
    // A token found through another form of its text counts as text.
    const auto index = static_cast<size_t>(token.id);
    special_[index] = token.special && tokens_[index] == token.content;
  }
  for (const std::string& token : tokens_) bytes_.push_back(decoder_.BytesOf(token));
  return absl::OkStatus();
}

absl::Status BpeTokenizer::ReadAdded(const nlohmann::json& json) {
  if (!json.is_array()) return TokenizerFault("added_tokens is not an array");
  for (const nlohmann::json& item : json) {
    TokenizerPart fields(item, StrCat("added_tokens[", added_.size(), "]"));
    AddedToken token;
    const int64_t id = fields.Integer("id");
    token.content = fields.Text("content");
    token.single_word = fields.Flag("single_word", false);
    token.left = fields.Flag("lstrip", false);
    token.right = fields.Flag("rstrip", false);
    token.special = fields.Flag("special", false);
    token.normalized = fields.Flag("normalized", !token.special);
    MNEMON_RETURN_IF_ERROR(fields.status());
    // Same as the ids of the vocab, with some room for holes.
    if (id < 0 || id >= kMostTokens ||
        id > 2 * static_cast<int64_t>(tokens_.size()) + 4096) {
      return TokenizerFault(
          StrCat(fields.path(), ": id ", id, " beside ", tokens_.size(), " tokens"));
    }
    token.id = static_cast<int32_t>(id);
    const auto index = static_cast<size_t>(id);
    if (index >= tokens_.size()) tokens_.resize(index + 1);
    const std::optional<int32_t> known = bpe_->Find(token.content);
    if (known && *known != token.id) {
      return TokenizerFault(StrCat(fields.path(), ": ", Quoted(token.content),
                                   " has the id ", id, ", in the vocab ", *known));
    }
    if (!tokens_[index].empty() && tokens_[index] != token.content) {
      return TokenizerFault(
          StrCat(fields.path(), ": id ", id, " is that of ", Quoted(tokens_[index])));
    }
    std::string wanted = token.content;
    if (token.normalized) {
      MNEMON_ASSIGN_OR_RETURN(wanted, normalizer_.Apply(token.content));
    }
    tokens_[index] = wanted;
    (token.normalized ? normalised_ : raw_).Add(std::move(wanted), token);
    added_.push_back(std::move(token));
  }
  return absl::OkStatus();
}

absl::Status BpeTokenizer::ReadPostProcessor(TokenizerPart part, int depth) {
  const std::string type = part.type();
  if (type == "Sequence") {
    if (depth == kMostNested) part.Refuse("is nested too deeply");
    for (TokenizerPart& item : part.Items("processors")) {
      MNEMON_RETURN_IF_ERROR(ReadPostProcessor(std::move(item), depth + 1));
    }
  } else if (type == "ByteLevel") {  // only for offsets
    for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      part.Ignore(key);
    }
  } else if (type == "TemplateProcessing") {
    part.Ignore("pair");
    const nlohmann::json* single = part.Find("single");
    const nlohmann::json* specials = part.Find("special_tokens");
    int texts = 0;
    if (single == nullptr || !single->is_array()) {
      part.Refuse("needs an array 'single'");
      return part.status();
    }
    for (const nlohmann::json& item : *single) {
      if (item.is_object() && item.contains("Sequence")) {
        ++texts;
        continue;
      }
      const bool named = item.is_object() && item.contains("SpecialToken") &&
                         item["SpecialToken"].is_object() &&
                         item["SpecialToken"].contains("id") &&
                         item["SpecialToken"]["id"].is_string();
      const std::string name =
          named ? item["SpecialToken"]["id"].get<std::string>() : std::string();
      const bool known = named && specials != nullptr && specials->is_object() &&
                         specials->contains(name) && (*specials)[name].is_object() &&
                         (*specials)[name].contains("ids") &&
                         (*specials)[name]["ids"].is_array();
      if (!known) {
        part.Refuse(StrCat("has no ids of its token ", Quoted(name)));
        break;
      }
      for (const nlohmann::json& id : (*specials)[name]["ids"]) {
        if (!id.is_number_unsigned() || id.get<uint64_t>() >= tokens_.size()) {
          part.Refuse(StrCat("has an id of ", Quoted(name), " that no token has"));
          break;
        }
        (texts == 0 ? before_ : after_).push_back(id.get<int32_t>());
      }
    }
    if (texts != 1) part.Refuse("does not have the text once");
  } else {
    part.Refuse(StrCat("is of type ", Quoted(type),
                       ", supported: ByteLevel, Sequence, TemplateProcessing"));
  }
  return part.status();
}

absl::Status BpeTokenizer::EncodeText(std::string_view text, bool first,
                                      std::vector<int32_t>& ids) const {
  std::string changed;
  if (!normalizer_.none()) {
    MNEMON_ASSIGN_OR_RETURN(changed, normalizer_.Apply(text));
    text = changed;
  }
  // Words repeat. Each has one place, which holds the latest.
  struct Known {
    ShortText text;
    size_t begin = 0, end = 0;  // range of its ids
  };
  constexpr size_t kMostKnown = 1 << 14;
  std::vector<Known> known(std::min(std::bit_ceil(text.size() / 2 + 1), kMostKnown));
  const auto encode = [&](std::string_view word) {
    if (word.size() > ShortText::kMost) {
      bpe_->Encode(word, ids);
      return;
    }
    const ShortText key(word);
    Known& place = known[absl::HashOf(key) & (known.size() - 1)];
    if (place.text == key) {
      for (size_t i = place.begin; i < place.end; ++i) ids.push_back(ids[i]);
      return;
    }
    const size_t begin = ids.size();
    bpe_->Encode(word, ids);
    place = {key, begin, ids.size()};
  };
  absl::Status status;
  normalised_.Cut(
      text,
      [&](std::string_view part, size_t at) {
        return pre_.Cut({part, first && at == 0}, [&](std::string_view rest) {
          while (!rest.empty()) {
            const size_t size = bpe_->FirstPart(rest);
            encode(rest.substr(0, size));
            rest.remove_prefix(size);
          }
        });
      },
      [&](int32_t id) { ids.push_back(id); }, status);
  return status;
}

absl::StatusOr<std::vector<int32_t>> BpeTokenizer::Encode(std::string_view text) const {
  if (const size_t valid = ValidUtf8Prefix(text); valid < text.size()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        StrCat("the text is not UTF-8 at byte ", valid),
        {.reason = "INVALID_UTF8", .metadata = {{"offset", StrCat(valid)}}});
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4);  // typical for prose
  absl::Status status;
  raw_.Cut(
      text,
      [&](std::string_view part, size_t at) { return EncodeText(part, at == 0, ids); },
      [&](int32_t id) { ids.push_back(id); }, status);
  if (!status.ok()) return status;
  return ids;
}

std::string BpeTokenizer::DecodeText(std::span<const int32_t> ids, bool special) const {
  std::string bytes, run;  // run of tokens that are bytes
  // A run of bytes is one text, or as many unknown characters.
  const auto end_run = [&] {
    if (IsValidUtf8(run)) {
      bytes += run;
    } else {
      for (size_t i = 0; i < run.size(); ++i) AppendUtf8(0xFFFD, bytes);
    }
    run.clear();
  };
  bool first = true;
  for (const int32_t id : ids) {
    const auto index = static_cast<size_t>(id);
    if (id < 0 || index >= tokens_.size() || (special_[index] && !special)) continue;
    std::string text = bytes_[index];
    if (decoder_.byte_fallback && ByteOf(tokens_[index]) >= 0) {
      run += text;
      first = false;
      continue;
    }
    end_run();
    if (first && !decoder_.first_without.empty()) {
      text = decoder_.BytesOf(
          absl::StrReplaceAll(tokens_[index], {{decoder_.first_without, ""}}));
    }
    if (!first && !decoder_.joined) bytes += ' ';
    bytes += text;
    first = false;
  }
  end_run();
  for (int64_t i = 0; i < decoder_.most && bytes.starts_with(decoder_.strip); ++i) {
    bytes.erase(0, 1);
  }
  Utf8Stream stream;
  std::string out = stream.Push(bytes);
  return out + stream.Finish();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeBpeTokenizer(const nlohmann::json& json,
                                                            std::string_view text,
                                                            int64_t vocab) {
  return BpeTokenizer::Make(json, text, vocab);
}

}  // namespace mnemon
