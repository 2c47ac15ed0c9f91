// SPDX-License-Identifier: MIT
#include "model/io/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace mnemon {
namespace {

using nlohmann::json;
using Strings = std::vector<std::string>;

enum TokenType : int64_t {
  kNormal = 1,
  kUnknown,
  kControl,
  kUserDefined,
  kUnused,
  kByte
};

constexpr char kBlank[] = "\xE2\x96\x81";  // U+2581, SentencePiece's blank
constexpr size_t kMostGgufTokens = size_t{1} << 20;
constexpr size_t kMostMerges = size_t{1} << 21;
// Limit of the work of finding merges: squared byte lengths, summed over tokens.
constexpr uint64_t kMostCutWork = uint64_t{1} << 30;

constexpr char kLlama3Cut[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2Cut[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen35Cut[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Meaning of a `pre`: the pre-tokenizer in the tokenizer.json of the models that it is
// named after.
struct TextCut {
  std::string_view pre;
  const char* expression = nullptr;  // null: GPT-2's
  bool digits = false;               // first separates each digit
  bool nfc = false;
  bool whole_tokens = false;  // ignore_merges
  bool begins = false;        // starts with bos unless a key says otherwise
};
constexpr TextCut kCuts[] = {
    {.pre = "gpt-2"},
    {.pre = "default"},
    {.pre = "llama-bpe",
     .expression = kLlama3Cut,
     .whole_tokens = true,
     .begins = true},
    {.pre = "lfm2", .expression = kLlama3Cut, .whole_tokens = true, .begins = true},
    {.pre = "qwen2", .expression = kQwen2Cut, .nfc = true},
    {.pre = "qwen35", .expression = kQwen35Cut, .nfc = true},
    {.pre = "smollm", .digits = true}};

std::string KeyOf(std::string_view name) { return StrCat("tokenizer.ggml.", name); }

absl::Status KeyFault(std::string_view name, std::string_view what) {
  return absl::InvalidArgumentError(
      StrCat("gguf: key ", Quoted(KeyOf(name)), " ", what));
}

bool FlagOf(const Gguf& file, std::string_view name, bool otherwise) {
  const auto* const found = file.Find<bool>(KeyOf(name));
  return found == nullptr ? otherwise : *found;
}

absl::StatusOr<const Strings*> StringsOf(const Gguf& file, std::string_view name,
                                         size_t most) {
  const auto* const found = file.Find<Strings>(KeyOf(name));
  if (found == nullptr || found->size() > most) {
    return KeyFault(name, StrCat("must be an array of up to ", most, " strings"));
  }
  for (size_t i = 0; i < found->size(); ++i) {
    if (IsValidUtf8((*found)[i])) continue;
    return KeyFault(name,
                    StrCat("has no UTF-8 at index ", i, ": ", Quoted((*found)[i])));
  }
  return found;
}

// Id of a token such as "bos"; none if the file has none.
std::optional<size_t> IdOf(const Gguf& file, std::string_view name, size_t tokens) {
  const auto* const id = file.Find<int64_t>(KeyOf(StrCat(name, "_token_id")));
  if (id == nullptr || *id < 0 || static_cast<uint64_t>(*id) >= tokens) return {};
  return static_cast<size_t>(*id);
}

// Type of each token; all normal if the file has none.
absl::StatusOr<std::vector<int64_t>> TypesOf(const Gguf& file, size_t tokens) {
  constexpr char kName[] = "token_type";
  if (!file.values.contains(KeyOf(kName))) {
    return std::vector<int64_t>(tokens, kNormal);
  }
  const auto* const types = file.Find<std::vector<int64_t>>(KeyOf(kName));
  if (types == nullptr || types->size() != tokens) {
    return KeyFault(kName,
                    StrCat("has not one integer for each of ", tokens, " tokens"));
  }
  return *types;
}

json AddedTokensOf(const Strings& tokens, std::span<const int64_t> types) {
  json added = json::array();
  for (size_t id = 0; id < tokens.size(); ++id) {
    const bool special = types[id] == kControl || types[id] == kUnknown;
    if (tokens[id].empty() || (!special && types[id] != kUserDefined)) continue;
    added.push_back({{"id", id},
                     {"content", tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

// Tokens at the ends of a text; null: none.
json TemplateOf(const Gguf& file, const Strings& tokens, bool begins) {
  const auto first = FlagOf(file, "add_bos_token", begins)
                         ? IdOf(file, "bos", tokens.size())
                         : std::nullopt;
  const auto last = FlagOf(file, "add_eos_token", false)
                        ? IdOf(file, "eos", tokens.size())
                        : std::nullopt;
  if (!first && !last) return nullptr;
  json single = json::array(), pair = json::array(), specials = json::object();
  const auto add = [&](std::optional<size_t> id, json& to, int sequence) {
    if (!id) return;
    const std::string& token = tokens[*id];
    to.push_back({{"SpecialToken", {{"id", token}, {"type_id", sequence}}}});
    specials[token] = {
        {"id", token}, {"ids", json::array({*id})}, {"tokens", json::array({token})}};
  };
  const auto add_text = [&](json& to, const char* name, int sequence) {
    add(first, to, sequence);
    to.push_back({{"Sequence", {{"id", name}, {"type_id", sequence}}}});
    add(last, to, sequence);
  };
  add_text(single, "A", 0);
  add_text(pair, "A", 0);
  add_text(pair, "B", 1);
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(specials)}};
}

absl::StatusOr<json> VocabOf(const Strings& tokens) {
  json vocab = json::object();
  for (size_t id = 0; id < tokens.size(); ++id) {
    const auto [at, is_new] = vocab.emplace(tokens[id], id);
    if (is_new) continue;
    return KeyFault("tokens", StrCat("has ", Quoted(tokens[id]), " twice, at ",
                                     at->get<size_t>(), " and ", id));
  }
  return vocab;
}

std::string Assemble(json normalizer, json pre_tokenizer, json post_processor,
                     json decoder, json added, json model) {
  return json({{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", std::move(added)},
               {"normalizer", std::move(normalizer)},
               {"pre_tokenizer", std::move(pre_tokenizer)},
               {"post_processor", std::move(post_processor)},
               {"decoder", std::move(decoder)},
               {"model", std::move(model)}})
      .dump();
}

json ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

absl::StatusOr<std::string> OfBytes(const Gguf& file, const Strings& tokens,
                                    std::span<const int64_t> types) {
  const auto* const named = file.Find<std::string>(KeyOf("pre"));
  const std::string pre = named == nullptr ? "default" : *named;
  const auto* const cut =
      std::ranges::find(kCuts, std::string_view(pre), &TextCut::pre);
  if (cut == std::end(kCuts)) {
    std::vector<std::string_view> known;
    for (const TextCut& one : kCuts) known.push_back(one.pre);
    return absl::UnimplementedError(StrCat("gguf: key ", Quoted(KeyOf("pre")), " is ",
                                           Quoted(pre),
                                           ", supported: ", StrJoin(known, ", ")));
  }
  MNEMON_ASSIGN_OR_RETURN(const Strings* merges,
                          StringsOf(file, "merges", kMostMerges));
  MNEMON_ASSIGN_OR_RETURN(json vocab, VocabOf(tokens));
  json steps = json::array();
  if (cut->digits) {
    steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  }
  if (cut->expression != nullptr) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", cut->expression}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(ByteLevel(cut->expression == nullptr));
  const json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", cut->whole_tokens},
                      {"vocab", std::move(vocab)},
                      {"merges", *merges}};
  return Assemble(cut->nfc ? json({{"type", "NFC"}}) : json(),
                  {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}},
                  TemplateOf(file, tokens, cut->begins), ByteLevel(true),
                  AddedTokensOf(tokens, types), model);
}

struct ScoredMerge {
  std::string_view left, right;
  double score = 0;
  size_t left_length = 0, right_length = 0;  // characters
};

// Every split of a token into two tokens, best score first; among equals the longest
// left part first, then in the order of the tokens.
absl::StatusOr<json> MergesOf(const Strings& tokens, std::span<const int64_t> types,
                              std::span<const double> scores) {
  absl::flat_hash_map<std::string_view, size_t> ids;
  uint64_t work = 0;
  const auto text = [&](size_t id) {
    return types[id] == kNormal || types[id] == kUserDefined || types[id] == kUnused;
  };
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!text(id)) continue;
    ids.emplace(tokens[id], id);
    const uint64_t size = std::min<uint64_t>(tokens[id].size(), kMostCutWork);
    work += std::min(size * size, kMostCutWork);
    if (work >= kMostCutWork) return KeyFault("tokens", "has tokens that are too long");
  }
  std::vector<ScoredMerge> merges;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!text(id)) continue;
    const std::string_view token = tokens[id];
    std::vector<std::pair<ScoredMerge, std::pair<size_t, size_t>>> cuts;
    size_t characters = 0;
    for (const char byte : token) characters += (byte & 0xC0) != 0x80;
    size_t before = 0;
    for (size_t at = 1; at < token.size(); ++at) {
      before += (token[at - 1] & 0xC0) != 0x80;
      if ((token[at] & 0xC0) == 0x80) continue;
      const auto left = ids.find(token.substr(0, at)),
                 right = ids.find(token.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      cuts.push_back(
          {{left->first, right->first, scores[id], before, characters - before},
           {left->second, right->second}});
    }
    std::ranges::sort(cuts, {}, [](const auto& one) { return one.second; });
    for (const auto& [merge, order] : cuts) merges.push_back(merge);
    if (merges.size() > kMostMerges) {
      return KeyFault("tokens", StrCat("makes more than ", kMostMerges, " merges"));
    }
  }
  std::ranges::stable_sort(merges, [](const ScoredMerge& a, const ScoredMerge& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.left_length != b.left_length) return a.left_length > b.left_length;
    return a.right_length > b.right_length;
  });
  json out = json::array();
  for (const ScoredMerge& merge : merges) {
    out.push_back(json::array({std::string(merge.left), std::string(merge.right)}));
  }
  return out;
}

json ReplaceBy(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

absl::StatusOr<std::string> OfCharacters(const Gguf& file, const Strings& tokens,
                                         std::span<const int64_t> types) {
  const auto* const scores = file.Find<std::vector<double>>(KeyOf("scores"));
  if (scores == nullptr || scores->size() != tokens.size() ||
      !std::ranges::all_of(*scores,
                           [](double score) { return std::isfinite(score); })) {
    return KeyFault("scores", StrCat("has not one finite number for each of ",
                                     tokens.size(), " tokens"));
  }
  const auto unknown = IdOf(file, "unknown", tokens.size());
  MNEMON_ASSIGN_OR_RETURN(json vocab, VocabOf(tokens));
  MNEMON_ASSIGN_OR_RETURN(json merges, MergesOf(tokens, types, *scores));
  const bool prefix = FlagOf(file, "add_space_prefix", true);
  json changes = json::array({ReplaceBy(" ", kBlank)});
  json decoders = json::array(
      {ReplaceBy(kBlank, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (prefix) {
    changes.insert(changes.begin(), json({{"type", "Prepend"}, {"prepend", kBlank}}));
    decoders.push_back(
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  const json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", unknown ? json(tokens[*unknown]) : json()},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", true},
                      {"byte_fallback", std::ranges::count(types, int64_t{kByte}) > 0},
                      {"ignore_merges", false},
                      {"vocab", std::move(vocab)},
                      {"merges", std::move(merges)}};
  return Assemble({{"type", "Sequence"}, {"normalizers", std::move(changes)}}, json(),
                  TemplateOf(file, tokens, /*begins=*/true),
                  {{"type", "Sequence"}, {"decoders", std::move(decoders)}},
                  AddedTokensOf(tokens, types), model);
}

struct TokenizerModel {
  std::string_view name;
  absl::StatusOr<std::string> (*make)(const Gguf& file, const Strings& tokens,
                                      std::span<const int64_t> types);
};
constexpr TokenizerModel kTokenizerModels[] = {{"gpt2", OfBytes},
                                               {"llama", OfCharacters}};

}  // namespace

absl::StatusOr<std::optional<std::string>> GgufTokenizerJson(const Gguf& file) {
  if (!file.values.contains(KeyOf("model"))) return std::nullopt;
  const auto* const value = file.Find<std::string>(KeyOf("model"));
  const std::string name = value == nullptr ? "" : *value;
  if (name == "none") return std::nullopt;
  const auto* const model = std::ranges::find(kTokenizerModels, std::string_view(name),
                                              &TokenizerModel::name);
  if (model == std::end(kTokenizerModels)) {
    return absl::UnimplementedError(StrCat("gguf: key ", Quoted(KeyOf("model")), " is ",
                                           Quoted(name), ", supported: gpt2, llama"));
  }
  MNEMON_ASSIGN_OR_RETURN(const Strings* tokens,
                          StringsOf(file, "tokens", kMostGgufTokens));
  MNEMON_ASSIGN_OR_RETURN(const std::vector<int64_t> types,
                          TypesOf(file, tokens->size()));
  MNEMON_ASSIGN_OR_RETURN(std::string made, model->make(file, *tokens, types));
  return made;
}

absl::StatusOr<std::string> GgufTokenizerConfig(const Gguf& file) {
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  const auto* const tokens = file.Find<Strings>(KeyOf("tokens"));
  constexpr std::pair<const char*, const char*> kNames[] = {{"bos", "bos_token"},
                                                            {"eos", "eos_token"},
                                                            {"unknown", "unk_token"},
                                                            {"padding", "pad_token"}};
  for (const auto& [ours, theirs] : kNames) {
    const auto id = tokens == nullptr ? std::nullopt : IdOf(file, ours, tokens->size());
    if (!id) continue;
    if (!IsValidUtf8((*tokens)[*id])) {
      return KeyFault("tokens", StrCat("has no UTF-8 at index ", *id));
    }
    config[theirs] = (*tokens)[*id];
  }
  constexpr char kChatTemplateKey[] = "tokenizer.chat_template";
  if (const auto* const chat = file.Find<std::string>(kChatTemplateKey)) {
    if (!IsValidUtf8(*chat)) {
      return absl::InvalidArgumentError(
          StrCat("gguf: key ", Quoted(kChatTemplateKey), " is not UTF-8"));
    }
    config["chat_template"] = *chat;
  }
  return config.dump(2) + "\n";
}

}  // namespace mnemon
