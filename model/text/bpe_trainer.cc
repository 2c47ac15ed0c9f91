// SPDX-License-Identifier: MIT
#include "model/text/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "model/text/bpe.h"
#include "model/text/tokenizer_part.h"

namespace mnemon {
namespace {

using nlohmann::json;

json ByteLevelStep() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", true}};
}

// Two neighbours, as left << 32 | right.
using Pair = uint64_t;
Pair PairOf(int32_t left, int32_t right) {
  return Pair{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// A distinct piece: its tokens so far, and its number of occurrences.
struct Word {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

// A pair in a queue; its count may have dropped since.
struct Frequent {
  int64_t count;
  Pair pair;
  bool operator<(const Frequent& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

// Counts and places of pairs.
class PairCounts {
 public:
  explicit PairCounts(std::vector<Word> words) : words_(std::move(words)) {
    for (size_t w = 0; w < words_.size(); ++w) {
      const Word& word = words_[w];
      for (size_t i = 1; i < word.tokens.size(); ++i) {
        Count(PairOf(word.tokens[i - 1], word.tokens[i]), word.count, w);
      }
    }
    for (const auto& [pair, count] : counts_) queue_.push({count, pair});
  }

  // The most frequent pair, if it occurs at least twice.
  std::optional<Pair> Most() {
    while (!queue_.empty()) {
      const Frequent top = queue_.top();
      queue_.pop();
      const int64_t now = counts_[top.pair];
      if (now < 2) continue;
      if (now == top.count) return top.pair;
      queue_.push({now, top.pair});
    }
    return std::nullopt;
  }

  void Forget(Pair pair) { counts_.erase(pair); }

  // Replaces the pair with `merged` everywhere.
  void Merge(Pair pair, int32_t merged) {
    const auto left = static_cast<int32_t>(pair >> 32);
    const auto right = static_cast<int32_t>(pair & 0xFFFFFFFF);
    std::set<Pair> grown;
    const std::vector<size_t> places = std::exchange(places_[pair], {});
    for (const size_t w : places) {
      Word& word = words_[w];
      for (size_t i = 1; i < word.tokens.size(); ++i) {
        Count(PairOf(word.tokens[i - 1], word.tokens[i]), -word.count);
      }
      std::vector<int32_t> tokens;
      for (size_t i = 0; i < word.tokens.size(); ++i) {
        const bool both = i + 1 < word.tokens.size() && word.tokens[i] == left &&
                          word.tokens[i + 1] == right;
        tokens.push_back(both ? merged : word.tokens[i]);
        if (both) ++i;
      }
      word.tokens = std::move(tokens);
      for (size_t i = 1; i < word.tokens.size(); ++i) {
        const int32_t a = word.tokens[i - 1], b = word.tokens[i];
        const bool fresh = a == merged || b == merged;
        const Pair next = PairOf(a, b);
        if (fresh) {
          Count(next, word.count, w);
          grown.insert(next);
        } else {
          Count(next, word.count);
        }
      }
    }
    for (const Pair next : grown) queue_.push({counts_[next], next});
    counts_.erase(pair);
    places_.erase(pair);
  }

 private:
  void Count(Pair pair, int64_t by) { counts_[pair] += by; }
  void Count(Pair pair, int64_t by, size_t word) {
    Count(pair, by);
    std::vector<size_t>& places = places_[pair];
    if (places.empty() || places.back() != word) places.push_back(word);
  }

  std::vector<Word> words_;
  absl::flat_hash_map<Pair, int64_t> counts_;
  absl::flat_hash_map<Pair, std::vector<size_t>> places_;  // words that may contain it
  std::priority_queue<Frequent> queue_;
};

}  // namespace

BpeTrainer::BpeTrainer(std::vector<std::string> special, PreTokenizer pre)
    : special_(std::move(special)), pre_(std::move(pre)) {}

absl::StatusOr<BpeTrainer> BpeTrainer::Create(std::vector<std::string> special) {
  std::set<std::string> seen;
  for (const std::string& token : special) {
    if (token.empty() || !IsValidUtf8(token)) {
      return absl::InvalidArgumentError("a special token is empty or not UTF-8");
    }
    if (!seen.insert(token).second) {
      return absl::InvalidArgumentError(
          StrCat("the special token ", Quoted(token), " comes twice"));
    }
  }
  MNEMON_ASSIGN_OR_RETURN(PreTokenizer pre, PreTokenizer::Parse(ByteLevelStep()));
  return BpeTrainer(std::move(special), std::move(pre));
}

absl::Status BpeTrainer::Add(std::string_view text) {
  MNEMON_RETURN_IF_ERROR(pre_.Cut(
      {text, true}, [&](std::string_view piece) { ++counts_[std::string(piece)]; }));
  if (counts_.size() > kMostWords) {
    return absl::ResourceExhaustedError(
        StrCat("the texts have more than ", kMostWords,
               " different words: a part of them makes as good a tokenizer"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> BpeTrainer::Train(int64_t vocab) const {
  const auto least = static_cast<int64_t>(special_.size()) + 256;
  if (vocab < least || vocab > kMostTokens) {
    return absl::InvalidArgumentError(StrCat(
        "a vocabulary of ", vocab, " tokens is not in ", least, "..", kMostTokens,
        ": it has the 256 bytes and ", special_.size(), " special tokens"));
  }
  std::vector<std::string> tokens = special_;
  std::map<std::string, int32_t> ids;
  std::vector<int32_t> of_byte(256);
  for (size_t b = 0; b < 256; ++b) {
    of_byte[b] = static_cast<int32_t>(tokens.size());
    tokens.push_back(CharacterOfByte(static_cast<uint8_t>(b)));
  }
  for (size_t id = 0; id < tokens.size(); ++id) {
    ids.emplace(tokens[id], static_cast<int32_t>(id));
  }
  std::vector<std::pair<std::string_view, int64_t>> sorted(counts_.begin(),
                                                           counts_.end());
  std::ranges::sort(sorted);
  std::vector<Word> words;
  for (const auto& [text, count] : sorted) {
    Word& word = words.emplace_back(Word{.tokens = {}, .count = count});
    for (const char byte : text) {
      word.tokens.push_back(of_byte[static_cast<uint8_t>(byte)]);
    }
  }
  PairCounts pairs(std::move(words));
  json merges = json::array();
  const std::set<std::string_view> special(special_.begin(), special_.end());
  while (static_cast<int64_t>(tokens.size()) < vocab) {
    const std::optional<Pair> pair = pairs.Most();
    if (!pair) break;
    const std::string left = tokens[*pair >> 32], right = tokens[*pair & 0xFFFFFFFF];
    // A special token's text is never made by merges.
    if (special.contains(left + right)) {
      pairs.Forget(*pair);
      continue;
    }
    merges.push_back({left, right});
    // Two pairs may make the same token.
    const auto [at, fresh] =
        ids.emplace(left + right, static_cast<int32_t>(tokens.size()));
    if (fresh) tokens.push_back(left + right);
    pairs.Merge(*pair, at->second);
  }
  json added = json::array();
  for (size_t id = 0; id < special_.size(); ++id) {
    added.push_back({{"id", id},
                     {"content", tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const nlohmann::ordered_json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", nullptr},
      {"pre_tokenizer", ByteLevelStep()},
      {"post_processor", nullptr},
      {"decoder", ByteLevelStep()},
      {"model", {{"type", "BPE"}, {"vocab", ids}, {"merges", std::move(merges)}}}};
  return file.dump(1) + "\n";
}

}  // namespace mnemon
