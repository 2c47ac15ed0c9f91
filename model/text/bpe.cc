// SPDX-License-Identifier: MIT
#include "model/text/bpe.h"

#include <algorithm>
#include <cstring>
#include <queue>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "model/text/tokenizer_part.h"

namespace mnemon {
namespace {

absl::Status ModelFault(std::string_view what) {
  return TokenizerFault(StrCat("model: ", what));
}

// Printable characters of Latin-1 represent themselves; other bytes, in order, are
// represented by characters from U+0100 on.
std::array<std::string, 256> MakeCharacters() {
  std::array<std::string, 256> all;
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 0x21 && byte <= 0x7E) ||
                        (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    AppendUtf8(itself ? byte : next++, all[byte]);
  }
  return all;
}

const std::array<std::string, 256>& Characters() {
  static const std::array<std::string, 256> kAll = MakeCharacters();
  return kAll;
}

// The bytes of a token written in these characters; none if it has others.
std::optional<std::string> MeantBytes(std::string_view token) {
  static const absl::flat_hash_map<std::string_view, char> kBytes = [] {
    absl::flat_hash_map<std::string_view, char> bytes;
    for (size_t b = 0; b < 256; ++b) bytes[Characters()[b]] = static_cast<char>(b);
    return bytes;
  }();
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const size_t begin = at;
    char32_t character = 0;
    if (!NextCodePoint(token, at, character)) return std::nullopt;
    const auto found = kBytes.find(token.substr(begin, at - begin));
    if (found == kBytes.end()) return std::nullopt;
    out += found->second;
  }
  return out;
}

// Up to this many symbols, a linear search for the next merge is faster than a queue.
constexpr size_t kFewSymbols = 64;

// Neighbours that may be merged: the first of a queue has the least rank, and is the
// leftmost among equals.
struct Candidate {
  int32_t rank, merged;
  int32_t at;  // index of the left one
  bool operator<(const Candidate& other) const {
    return std::pair(rank, at) > std::pair(other.rank, other.at);
  }
};

}  // namespace

const std::string& CharacterOfByte(uint8_t byte) { return Characters()[byte]; }

std::string BytesOfToken(std::string_view token) {
  return MeantBytes(token).value_or(std::string(token));
}

ShortText::ShortText(std::string_view text) {
  std::array<char, kMost + 1> bytes = {};
  std::memcpy(bytes.data(), text.data(), text.size());
  bytes.back() = static_cast<char>(text.size());
  std::memcpy(&low, bytes.data(), sizeof(low));
  std::memcpy(&high, bytes.data() + sizeof(low), sizeof(high));
}

absl::StatusOr<Bpe> Bpe::Parse(const nlohmann::json& json, bool byte_level) {
  TokenizerPart fields(json, "model");
  Bpe bpe;
  bpe.byte_level_ = byte_level;
  fields.Ignore("type");
  for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!fields.Text(key, "").empty()) {
      fields.Refuse(StrCat("has a ", key, ", which is not supported"));
    }
  }
  const nlohmann::json* dropout = fields.Find("dropout");
  if (dropout != nullptr && *dropout != 0.0) {
    fields.Refuse("has a dropout, which is not supported");
  }
  bpe.byte_fallback_ = fields.Flag("byte_fallback", false);
  bpe.fuse_unknown_ = fields.Flag("fuse_unk", false);
  bpe.ignore_merges_ = fields.Flag("ignore_merges", false);
  const std::string unknown = fields.Text("unk_token", "");
  const nlohmann::json* vocab = fields.Find("vocab");
  const nlohmann::json* merges = fields.Find("merges");
  if (vocab == nullptr || !vocab->is_object() || vocab->empty()) {
    fields.Refuse("needs an object 'vocab' with a token");
  }
  if (merges == nullptr || !merges->is_array()) {
    fields.Refuse("needs an array 'merges'");
  }
  MNEMON_RETURN_IF_ERROR(fields.status());
  MNEMON_RETURN_IF_ERROR(bpe.ReadVocab(*vocab));
  MNEMON_RETURN_IF_ERROR(bpe.ReadMerges(*merges));
  if (!unknown.empty()) {
    bpe.unknown_ = bpe.Find(unknown);
    if (!bpe.unknown_) {
      return ModelFault(StrCat("unk_token ", Quoted(unknown), " is not in its vocab"));
    }
  }
  for (size_t b = 0; b < 256; ++b) {
    bpe.bytes_[b] =
        bpe.Find(byte_level ? Characters()[b] : absl::StrFormat("<0x%02X>", b))
            .value_or(-1);
  }
  bpe.NoteCharacters();
  bpe.NoteWords();
  return bpe;
}

absl::Status Bpe::ReadVocab(const nlohmann::json& vocab) {
  ids_.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= uint64_t{kMostTokens}) {
      return ModelFault(StrCat("vocab entry ", Quoted(token), ": id ",
                               Quoted(id.dump()), " is not in 0..", kMostTokens - 1));
    }
    const auto index = id.get<size_t>();
    // Few holes are allowed: a large id needs about as many tokens.
    if (index > 2 * vocab.size() + 4096) {
      return ModelFault(StrCat("vocab entry ", Quoted(token), ": id ", index,
                               " in a vocab of ", vocab.size(), " tokens"));
    }
    if (index >= tokens_.size()) tokens_.resize(index + 1);
    if (!tokens_[index].empty()) {
      return ModelFault(StrCat("vocab entries ", Quoted(tokens_[index]), " and ",
                               Quoted(token), " have the same id ", index));
    }
    tokens_[index] = token;
  }
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (!tokens_[id].empty()) ids_.emplace(tokens_[id], static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status Bpe::ReadMerges(const nlohmann::json& merges) {
  merges_.reserve(merges.size());
  int32_t rank = 0;
  for (const nlohmann::json& merge : merges) {
    std::string left, right;
    bool two = false;
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      two = space != text.npos && text.find(' ', space + 1) == text.npos;
      if (two) {
        left = text.substr(0, space);
        right = text.substr(space + 1);
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      two = true;
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    }
    if (!two) {
      return ModelFault(
          StrCat("merge ", rank, " is not two tokens: ",
                 Quoted(merge.dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace))));
    }
    const std::optional<int32_t> a = Find(left), b = Find(right);
    const std::optional<int32_t> both = Find(left + right);
    if (!a || !b || !both) {
      const std::string& missing = !a ? left : !b ? right : left + right;
      return ModelFault(
          StrCat("merge ", rank, ": ", Quoted(missing), " is not in its vocab"));
    }
    const uint64_t pair =
        uint64_t{static_cast<uint32_t>(*a)} << 32 | static_cast<uint32_t>(*b);
    merges_[pair] = {rank++, *both};
  }
  return absl::OkStatus();
}

void Bpe::NoteCharacters() {
  if (byte_level_) return;
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const std::string& token = tokens_[id];
    size_t at = 0;
    char32_t character = 0;
    if (!token.empty() && NextCodePoint(token, at, character) && at == token.size()) {
      characters_.emplace(character, static_cast<int32_t>(id));
    }
  }
  // Nothing may be divided if whole pieces or runs of unknown characters matter.
  const bool fuses =
      fuse_unknown_ && !(byte_fallback_ && std::ranges::min(bytes_) >= 0);
  if (ignore_merges_ || fuses) return;
  cuts_ = true;
  for (const auto& [pair, merge] : merges_) {
    const std::string& left = tokens_[pair >> 32];
    const std::string& right = tokens_[pair & 0xFFFFFFFF];
    size_t last = left.size() - 1, first = 0;
    while (last > 0 && (static_cast<uint8_t>(left[last]) & 0xC0) == 0x80) --last;
    char32_t a = 0, b = 0;
    if (NextCodePoint(left, last, a) && NextCodePoint(right, first, b)) {
      joined_.insert(uint64_t{a} << 32 | b);
    }
  }
  for (char32_t a = 0; a < 128; ++a) {
    for (char32_t b = 0; b < 128; ++b) ascii_cuts_[a][b] = MayCut(a, b);
  }
}

void Bpe::NoteWords() {
  words_.reserve(tokens_.size());
  std::vector<int32_t> ids;
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const std::optional<std::string> text =
        byte_level_ ? MeantBytes(tokens_[id]) : std::optional(tokens_[id]);
    if (!text || text->empty() || text->size() > ShortText::kMost) continue;
    ids = {static_cast<int32_t>(id)};
    if (!ignore_merges_) {
      ids.clear();
      AddMerged(*text, ids);
    }
    if (ids.size() == 1) words_.emplace(ShortText(*text), ids[0]);
  }
}

bool Bpe::MayCut(char32_t before, char32_t after) const {
  return !joined_.contains(uint64_t{before} << 32 | after) &&
         characters_.contains(before) && characters_.contains(after);
}

size_t Bpe::FirstPart(std::string_view piece) const {
  if (!cuts_) return piece.size();
  size_t at = 0;
  char32_t before = 0, character = 0;
  if (!NextCodePoint(piece, at, before)) return piece.size();
  while (at < piece.size()) {
    const size_t begin = at;
    if (!NextCodePoint(piece, at, character)) break;
    const bool ascii = (before | character) < 128;
    if (ascii ? ascii_cuts_[before][character] : MayCut(before, character)) {
      return begin;
    }
    before = character;
  }
  return piece.size();
}

std::optional<int32_t> Bpe::Find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

Bpe::Merge Bpe::MergeOf(int32_t left, int32_t right) const {
  const auto found = merges_.find(uint64_t{static_cast<uint32_t>(left)} << 32 |
                                  static_cast<uint32_t>(right));
  return found == merges_.end() ? Merge() : found->second;
}

void Bpe::Begin(std::string_view piece, std::vector<int32_t>& symbols) const {
  if (byte_level_) {
    // Each byte is a character of its own.
    bool unknown_before = false;
    for (const char byte : piece) {
      const int32_t id = bytes_[static_cast<uint8_t>(byte)];
      if (id >= 0) symbols.push_back(id);
      if (id < 0 && unknown_ && !(unknown_before && fuse_unknown_)) {
        symbols.push_back(*unknown_);
      }
      unknown_before = id < 0;
    }
    return;
  }
  bool waits = false;  // whether more characters may join an unknown token
  for (size_t at = 0; at < piece.size();) {
    const size_t begin = at;
    char32_t character = 0;
    if (!NextCodePoint(piece, at, character)) return;
    const std::string_view bytes = piece.substr(begin, at - begin);
    if (const auto found = characters_.find(character); found != characters_.end()) {
      if (std::exchange(waits, false)) symbols.push_back(*unknown_);
      symbols.push_back(found->second);
      continue;
    }
    const auto token = [this](char byte) { return bytes_[static_cast<uint8_t>(byte)]; };
    if (byte_fallback_ &&
        std::ranges::all_of(bytes, [&](char byte) { return token(byte) >= 0; })) {
      for (const char byte : bytes) symbols.push_back(token(byte));
      continue;
    }
    if (!unknown_) continue;
    if (waits && !fuse_unknown_) symbols.push_back(*unknown_);
    waits = true;
  }
  if (waits) symbols.push_back(*unknown_);
}

size_t Bpe::MergeFew(std::span<int32_t> symbols) const {
  std::array<Merge, kFewSymbols> merges;  // of each symbol and the next
  size_t count = symbols.size();
  const auto note = [&](size_t i) { merges[i] = MergeOf(symbols[i], symbols[i + 1]); };
  for (size_t i = 0; i + 1 < count; ++i) note(i);
  while (count > 1) {
    size_t first = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[first].rank) first = i;
    }
    if (merges[first].merged < 0) break;
    symbols[first] = merges[first].merged;
    --count;
    for (size_t i = first + 1; i < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    if (first > 0) note(first - 1);
    if (first + 1 < count) note(first);
  }
  return count;
}

size_t Bpe::MergeMany(std::span<int32_t> symbols) const {
  const auto count = static_cast<int32_t>(symbols.size());
  // A linked list: merged symbols are -1; next and before refer to those that are left.
  std::vector<int32_t> next(symbols.size()), before(symbols.size());
  std::priority_queue<Candidate> queue;
  const auto consider = [&](int32_t left, int32_t right) {
    const Merge merge = MergeOf(symbols[static_cast<size_t>(left)],
                                symbols[static_cast<size_t>(right)]);
    if (merge.merged >= 0) queue.push({merge.rank, merge.merged, left});
  };
  for (int32_t i = 0; i < count; ++i) {
    next[static_cast<size_t>(i)] = i + 1;
    before[static_cast<size_t>(i)] = i - 1;
    if (i > 0) consider(i - 1, i);
  }
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const auto at = static_cast<size_t>(top.at);
    if (symbols[at] < 0 || next[at] >= count) continue;
    const auto right = static_cast<size_t>(next[at]);
    // The pair may have changed.
    if (MergeOf(symbols[at], symbols[right]).merged != top.merged) continue;
    symbols[at] = top.merged;
    symbols[right] = -1;
    next[at] = next[right];
    if (next[at] < count) {
      before[static_cast<size_t>(next[at])] = top.at;
      consider(top.at, next[at]);
    }
    if (before[at] >= 0) consider(before[at], top.at);
  }
  // clang 14 rejects the subrange that std::ranges::remove returns.
  return static_cast<size_t>(std::remove(symbols.begin(), symbols.end(), -1) -
                             symbols.begin());
}

void Bpe::Encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.size() <= ShortText::kMost) {
    const auto found = words_.find(ShortText(piece));
    if (found != words_.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  AddMerged(piece, ids);
}

void Bpe::AddMerged(std::string_view piece, std::vector<int32_t>& ids) const {
  if (ignore_merges_ && piece.size() > ShortText::kMost) {
    std::string token;
    if (byte_level_) {
      for (const char byte : piece) token += Characters()[static_cast<uint8_t>(byte)];
    } else {
      token = piece;
    }
    if (const std::optional<int32_t> id = Find(token)) {
      ids.push_back(*id);
      return;
    }
  }
  const size_t begin = ids.size();
  Begin(piece, ids);
  const auto symbols = std::span(ids).subspan(begin);
  const size_t left =
      symbols.size() <= kFewSymbols ? MergeFew(symbols) : MergeMany(symbols);
  ids.resize(begin + left);
}

}  // namespace mnemon
