// SPDX-License-Identifier: MIT
#include "train/data/tokenize.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/text/char_tokenizer.h"
#include "train/data/open_tokenizer.h"
#include "train/data/text_stream.h"
#include "train/data/text_survey.h"
#include "train/data/token_file_header.h"
#include "train/parallel/worker_pool.h"

namespace mnemon {
namespace {

// More than one, so that a slow one does not keep all threads waiting.
constexpr int64_t kBlocksPerThread = 4;

// Most bytes of a text that is tokenized as a whole.
constexpr int64_t kMostWholeBytes = int64_t{1} << 30;

void AppendToken(int32_t token, size_t width, std::string& to) {
  for (size_t i = 0; i < width; ++i) to += static_cast<char>(token >> (8 * i));
}

bool IsByte(const Tokenizer& tokenizer) {
  return tokenizer.ToJson() == MakeByteTokenizer()->ToJson();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ReadTokenizer(const std::string& path) {
  auto tokenizer = OpenTokenizer(path);
  if (tokenizer.ok()) return tokenizer;
  return Annotated(
      tokenizer.status(),
      "--tokenizer is char, byte, a tokenizer.json or a model that has one");
}

// Offset of the unknown character, in the text that was encoded.
int64_t OffsetOf(const absl::Status& unknown) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(unknown);
  MNEMON_CHECK(detail.has_value());
  int64_t offset = 0;
  MNEMON_CHECK(absl::SimpleAtoi(detail->metadata.at("offset"), &offset));
  return offset;
}

using Round = std::span<const TextBlock>;

// Results of the first reading.
struct Found {
  TextSurvey survey;
  Sha256 hash;         // of the text
  int64_t tokens = 0;  // where some characters are left out
};

class Tokenization {
 public:
  Tokenization(const TokenizeOptions& options, const TextStream& text)
      : options_(options), text_(text), pool_(options.threads) {}

  absl::StatusOr<TokenizeResult> Run();

 private:
  // For a tokenizer whose tokens depend on the text around them.
  absl::StatusOr<TokenizeResult> RunWhole(std::unique_ptr<Tokenizer> tokenizer);
  TextBlocks Blocks() const {
    return {text_, options_.block_bytes, kBlocksPerThread * options_.threads};
  }
  // Calls work(worker, i) for i of 0 .. count-1, in this order, on any threads.
  absl::Status ForEach(int64_t count,
                       const std::function<absl::Status(int, int64_t)>& work);
  void Advance(int64_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(done_, 2 * text_.size());
  }
  // `skipping`: a tokenizer that leaves characters out, else null.
  absl::Status Survey(bool characters, const Tokenizer* skipping, Found& found);
  // Appends the tokens of `block` to `to`, as they lie in the file.
  absl::Status Encode(const Tokenizer& tokenizer, TokenWidth width,
                      const TextBlock& block, std::string& to) const;
  absl::Status Write(const TokenFileHeader& header, TokenizeResult& result);

  const TokenizeOptions& options_;
  const TextStream& text_;
  WorkerPool pool_;
  int64_t done_ = 0;
};

absl::Status Tokenization::ForEach(
    int64_t count, const std::function<absl::Status(int, int64_t)>& work) {
  std::atomic<int64_t> next = 0;
  return pool_.Run([&](int worker) {
    for (int64_t i = next++; i < count; i = next++) {
      MNEMON_RETURN_IF_ERROR(work(worker, i));
    }
    return absl::OkStatus();
  });
}

absl::Status Tokenization::Survey(bool characters, const Tokenizer* skipping,
                                  Found& found) {
  std::vector<TextSurvey> surveys(pool_.size());
  std::vector<int64_t> tokens(pool_.size());
  TextBlocks blocks = Blocks();
  MNEMON_ASSIGN_OR_RETURN(Round round, blocks.Next());
  while (!round.empty()) {
    const TextBlock& last = round.back();
    const std::string_view all(
        round[0].bytes.data(),
        last.begin + static_cast<int64_t>(last.bytes.size()) - round[0].begin);
    const auto count = characters ? static_cast<int64_t>(round.size()) : 0;
    std::vector<std::optional<int64_t>> wrong(count);
    absl::StatusOr<Round> next;
    // The hash goes through all bytes in order, so it is the longest piece of work.
    MNEMON_RETURN_IF_ERROR(
        ForEach(2 + count, [&](int worker, int64_t i) -> absl::Status {
          if (i == 0) {
            found.hash.Update(all);
          } else if (i == 1) {
            next = blocks.Next();
          } else {
            wrong[i - 2] = surveys[worker].Add(round[i - 2].bytes);
            if (skipping != nullptr && !wrong[i - 2]) {
              const auto known =
                  skipping->EncodeWith(round[i - 2].bytes, options_.unknown);
              if (!known.ok()) return known.status();
              tokens[worker] += static_cast<int64_t>(known->size());
            }
          }
          return absl::OkStatus();
        }));
    for (int64_t i = 0; i < count; ++i) {
      if (!wrong[i]) continue;
      MNEMON_RETURN_IF_ERROR(text_.CheckKind(round[i].begin + *wrong[i]));
      return absl::InvalidArgumentError(
          StrCat(text_.PlaceOf(round[i].begin + *wrong[i]),
                 " is not UTF-8; --tokenizer byte takes any file"));
    }
    Advance(static_cast<int64_t>(all.size()));
    MNEMON_ASSIGN_OR_RETURN(round, std::move(next));
  }
  for (const TextSurvey& survey : surveys) found.survey.Add(survey);
  for (const int64_t some : tokens) found.tokens += some;
  return absl::OkStatus();
}

absl::Status Tokenization::Encode(const Tokenizer& tokenizer, TokenWidth width,
                                  const TextBlock& block, std::string& to) const {
  const auto tokens = tokenizer.EncodeWith(block.bytes, options_.unknown);
  if (!tokens.ok()) {
    return absl::InvalidArgumentError(
        StrCat(text_.PlaceOf(block.begin + OffsetOf(tokens.status())),
               " has a character that the tokenizer does not know; it has ",
               tokenizer.Describe()));
  }
  const auto bytes = static_cast<size_t>(width);
  to.clear();
  to.reserve(tokens->size() * bytes);
  for (const int32_t token : *tokens) AppendToken(token, bytes, to);
  return absl::OkStatus();
}

absl::Status Tokenization::Write(const TokenFileHeader& header,
                                 TokenizeResult& result) {
  MNEMON_ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(options_.out));
  // The header, and then the tokens of one round while those of the next are made.
  std::vector<std::string> ready = {FormatTokenFileHeader(header)}, made;
  result.file_bytes = static_cast<int64_t>(ready[0].size()) +
                      header.count * static_cast<int64_t>(header.width);
  int64_t written = 0;
  const auto write = [&]() -> absl::Status {
    for (const std::string& piece : ready) {
      MNEMON_RETURN_IF_ERROR(file.Write(piece));
      written += static_cast<int64_t>(piece.size());
    }
    return absl::OkStatus();
  };
  TextBlocks blocks = Blocks();
  MNEMON_ASSIGN_OR_RETURN(Round round, blocks.Next());
  while (!round.empty()) {
    made.resize(round.size());
    std::vector<absl::Status> statuses(round.size());
    absl::StatusOr<Round> next;
    const auto count = static_cast<int64_t>(round.size());
    MNEMON_RETURN_IF_ERROR(ForEach(2 + count, [&](int, int64_t i) -> absl::Status {
      if (i == 0) return write();
      if (i == 1) {
        next = blocks.Next();
        return next.status();
      }
      statuses[i - 2] =
          Encode(*header.tokenizer, header.width, round[i - 2], made[i - 2]);
      return absl::OkStatus();
    }));
    for (const absl::Status& status : statuses) {
      if (status.ok()) continue;
      MNEMON_RETURN_IF_ERROR(text_.CheckUnchanged());
      return status;
    }
    for (const TextBlock& block : round) {
      Advance(static_cast<int64_t>(block.bytes.size()));
    }
    std::swap(ready, made);
    round = *next;
  }
  MNEMON_RETURN_IF_ERROR(write());
  MNEMON_RETURN_IF_ERROR(text_.CheckUnchanged());
  if (written != result.file_bytes) {
    return absl::DataLossError("the text changed between its two readings");
  }
  return file.Publish();
}

absl::StatusOr<TokenizeResult> Tokenization::RunWhole(
    std::unique_ptr<Tokenizer> tokenizer) {
  if (text_.size() > kMostWholeBytes) {
    return absl::ResourceExhaustedError(StrCat("the texts have ", text_.size(),
                                               " bytes, and with a tokenizer of byte "
                                               "pairs at most ",
                                               kMostWholeBytes,
                                               " are taken: make several files"));
  }
  std::string text(static_cast<size_t>(text_.size()), '\0');
  MNEMON_RETURN_IF_ERROR(text_.Read(0, text));
  const auto tokens = tokenizer->Encode(text);
  if (!tokens.ok()) {
    const int64_t offset = OffsetOf(tokens.status());
    MNEMON_RETURN_IF_ERROR(text_.CheckKind(offset));
    return absl::InvalidArgumentError(StrCat(text_.PlaceOf(offset), " is not UTF-8"));
  }
  TokenFileHeader header;
  header.count = static_cast<int64_t>(tokens->size());
  Sha256 hash;
  hash.Update(text);
  hash.Update(tokenizer->ToJson());
  header.sha256 = hash.HexDigest();
  header.width = WidthFor(tokenizer->size());
  header.tokenizer = std::move(tokenizer);
  const std::string head = FormatTokenFileHeader(header);
  const auto width = static_cast<size_t>(header.width);
  TokenizeResult result = {
      .text_bytes = text_.size(),
      .tokens = header.count,
      .file_bytes = static_cast<int64_t>(head.size() + tokens->size() * width)};
  MNEMON_ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(options_.out));
  MNEMON_RETURN_IF_ERROR(file.Write(head));
  std::string piece;
  constexpr size_t kPiece = 1 << 18;  // tokens
  for (size_t at = 0; at < tokens->size(); at += kPiece) {
    piece.clear();
    for (size_t i = at; i < std::min(at + kPiece, tokens->size()); ++i) {
      AppendToken((*tokens)[i], width, piece);
    }
    MNEMON_RETURN_IF_ERROR(file.Write(piece));
  }
  Advance(2 * text_.size());
  MNEMON_RETURN_IF_ERROR(text_.CheckUnchanged());
  MNEMON_RETURN_IF_ERROR(file.Publish());
  result.tokenizer = std::move(header.tokenizer);
  return result;
}

absl::StatusOr<TokenizeResult> Tokenization::Run() {
  TokenFileHeader header;
  const bool own = options_.tokenizer == "char";
  if (options_.tokenizer == "byte") {
    header.tokenizer = MakeByteTokenizer();
  } else if (!own) {
    MNEMON_ASSIGN_OR_RETURN(header.tokenizer, ReadTokenizer(options_.tokenizer));
    if (!header.tokenizer->divides()) return RunWhole(std::move(header.tokenizer));
  }
  const bool bytes = !own && IsByte(*header.tokenizer);
  const Tokenizer* skipping = nullptr;
  std::string treatment;  // of unknown characters, if not the tokenizer's
  if (!own && !bytes) {
    const UnknownCharacters model = header.tokenizer->unknown_characters();
    const UnknownCharacters unknown =
        options_.unknown == UnknownCharacters::kAsModel ? model : options_.unknown;
    if (unknown == UnknownCharacters::kSkip) skipping = header.tokenizer.get();
    if (unknown != model) treatment = Name(unknown);
  }
  Found found;
  MNEMON_RETURN_IF_ERROR(Survey(/*characters=*/!bytes, skipping, found));
  header.count = bytes                 ? text_.size()
                 : skipping != nullptr ? found.tokens
                                       : found.survey.characters();
  if (skipping != nullptr && found.tokens == 0) {
    return absl::InvalidArgumentError(StrCat(
        "--tokenizer ", Quoted(options_.tokenizer),
        " knows no character of the texts; it has ", header.tokenizer->Describe()));
  }
  if (!bytes) {
    auto natural = MakeCharTokenizerOf(found.survey.Alphabet());
    if (own) {
      header.tokenizer = std::move(natural);
    } else if (const std::string json = header.tokenizer->ToJson();
               json != natural->ToJson()) {
      // The tokens are not those of the text alone, so the content is another.
      found.hash.Update(json);
      found.hash.Update(treatment);
    }
  }
  header.sha256 = found.hash.HexDigest();
  header.width = WidthFor(header.tokenizer->size());
  TokenizeResult result = {.text_bytes = text_.size(), .tokens = header.count};
  MNEMON_RETURN_IF_ERROR(Write(header, result));
  result.tokenizer = std::move(header.tokenizer);
  return result;
}

}  // namespace

absl::StatusOr<TokenizeResult> TokenizeTexts(const TokenizeOptions& options) {
  MNEMON_ASSIGN_OR_RETURN(const TextStream text, TextStream::Open(options.texts));
  return Tokenization(options, text).Run();
}

}  // namespace mnemon
