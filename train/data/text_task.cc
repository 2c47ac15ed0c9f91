// SPDX-License-Identifier: MIT
#include "train/data/text_task.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/text/char_tokenizer.h"
#include "train/data/open_tokenizer.h"
#include "train/data/token_file.h"

namespace mnemon {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{4} << 30;
// Tokens of the validation text that start a sample when no prompt is set.
constexpr int64_t kDefaultPrompt = 16;

// Tokens and their tokenizer, whatever owns them.
struct TextSource {
  std::shared_ptr<const void> owner;  // of all else
  const Tokenizer* tokenizer;
  TokenView train;
  TokenView validation;
  std::string sha256;
};

class TextTask final : public Task {
 public:
  explicit TextTask(TextSource source) : source_(std::move(source)) {}

  int64_t vocab() const override { return source_.tokenizer->size(); }
  std::string Describe() const override {
    return absl::StrFormat("text: %d training and %d validation tokens of %d kinds",
                           source_.train.size(), source_.validation.size(), vocab());
  }
  const Tokenizer* tokenizer() const override { return source_.tokenizer; }
  const std::string& sha256() const override { return source_.sha256; }

  absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(const DataOptions& options,
                                                     LoaderUse use,
                                                     uint64_t seed) const override {
    if (use == LoaderUse::kTest) return nullptr;
    const bool training = use == LoaderUse::kTraining;
    return mnemon::MakeLoader(training ? source_.train : source_.validation, options,
                              use, seed);
  }

  absl::StatusOr<std::vector<int32_t>> Prompt(
      const std::string& wanted) const override {
    if (wanted.empty()) {
      std::vector<int64_t> tokens;
      MNEMON_RETURN_IF_ERROR(source_.validation.Append(
          0, std::min(kDefaultPrompt, source_.validation.size()), tokens));
      return std::vector<int32_t>(tokens.begin(), tokens.end());
    }
    auto prompt = source_.tokenizer->Encode(wanted);
    if (prompt.ok() && prompt->empty()) {
      return absl::InvalidArgumentError(
          "sample.prompt: all of its characters are unknown and left out");
    }
    if (prompt.ok()) return prompt;
    return absl::InvalidArgumentError(
        StrCat("sample.prompt: ", std::string(prompt.status().message())));
  }

 private:
  const TextSource source_;
};

// Tokens of the training part.
int64_t SplitOf(int64_t tokens, const DataOptions& options) {
  return static_cast<int64_t>(static_cast<double>(tokens) * (1.0 - options.validation));
}

// Uses the tokenizer of the file; the configuration must not name another one.
absl::Status CheckTokenizer(const TokenFile& file, const DataOptions& options) {
  const Tokenizer& own = file.tokenizer();
  const bool bytes = own.ToJson() == MakeByteTokenizer()->ToJson();
  const std::string kind = bytes ? "byte" : "char";
  if (own.divides()) {
    if (options.tokenizer == kind) return absl::OkStatus();
    return absl::InvalidArgumentError(StrCat(
        "data.tokenizer is ", options.tokenizer, ", and the tokens of ",
        Quoted(options.text), " are of ", kind, ": set data.tokenizer = ", kind));
  }
  const auto named = OpenTokenizer(options.tokenizer);
  if (named.ok() && (*named)->ToJson() == own.ToJson()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat("data.tokenizer is ", options.tokenizer, ", and the tokens of ",
             Quoted(options.text),
             " are of byte pairs: set data.tokenizer to the file "
             "that they were made with"));
}

// Null if data.unknown_characters does not change `tokenizer`.
absl::StatusOr<std::unique_ptr<Tokenizer>> WithOption(const Tokenizer& tokenizer,
                                                      const DataOptions& options) {
  if (options.unknown_characters == UnknownCharacters::kAsModel) return nullptr;
  auto made = WithUnknownCharacters(tokenizer, options.unknown_characters);
  if (made != nullptr) return made;
  return InvalidField(
      "data.unknown_characters",
      StrCat("data.unknown_characters = ", Name(options.unknown_characters),
             ": the tokenizer knows every text, it is not one of characters: leave the "
             "key out"));
}

absl::StatusOr<std::unique_ptr<Task>> LoadTokenFileTask(const DataOptions& options) {
  auto opened = TokenFile::Open(options.text);
  if (!opened.ok()) return Annotated(opened.status(), "data.text");
  const std::shared_ptr<const TokenFile> file = *std::move(opened);
  MNEMON_RETURN_IF_ERROR(CheckTokenizer(*file, options));
  struct Held {
    std::shared_ptr<const TokenFile> file;
    std::unique_ptr<Tokenizer> tokenizer;  // null: the file's
  };
  const auto held = std::make_shared<Held>(Held{file, nullptr});
  MNEMON_ASSIGN_OR_RETURN(held->tokenizer, WithOption(file->tokenizer(), options));
  const TokenView tokens = file->tokens();
  const int64_t split = SplitOf(tokens.size(), options);
  return std::make_unique<TextTask>(
      TextSource{.owner = held,
                 .tokenizer = held->tokenizer != nullptr ? held->tokenizer.get()
                                                         : &file->tokenizer(),
                 .train = tokens.Part(0, split),
                 .validation = tokens.Part(split, tokens.size() - split),
                 .sha256 = file->sha256()});
}

}  // namespace

std::unique_ptr<Task> MakeTextTask(TextParts parts) {
  const auto held = std::make_shared<const TextParts>(std::move(parts));
  return std::make_unique<TextTask>(
      TextSource{.owner = held,
                 .tokenizer = held->tokenizer.get(),
                 .train = std::span<const int32_t>(held->train),
                 .validation = std::span<const int32_t>(held->validation),
                 .sha256 = held->sha256});
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  // People may keep texts as links; ReadFile takes regular files only.
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  MNEMON_ASSIGN_OR_RETURN(std::string text,
                          ReadFile(error ? path : real, kMaxTextBytes));
  if (FindFileKind(text) == FileKind::kLfsPointer) {
    return WrongKind(path, FileKind::kLfsPointer);
  }
  if (!BeginsTokenFile(text)) return text;
  return absl::InvalidArgumentError(
      StrCat(Quoted(path), " is a token file; a text is needed"));
}

absl::StatusOr<std::unique_ptr<Task>> LoadTextTask(const DataOptions& options) {
  if (IsTokenFile(options.text)) return LoadTokenFileTask(options);
  auto text = ReadText(options.text);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        StrCat("data.text: ", std::string(text.status().message())));
  }
  TextParts parts;
  parts.sha256 = Sha256Hex(*text);
  if (options.tokenizer == "byte") {
    parts.tokenizer = MakeByteTokenizer();
  } else if (options.tokenizer != "char") {
    auto tokenizer = OpenTokenizer(options.tokenizer);
    if (!tokenizer.ok()) {
      return Annotated(tokenizer.status(),
                       "data.tokenizer is char, byte, a tokenizer.json or a model that "
                       "has one");
    }
    parts.tokenizer = *std::move(tokenizer);
  } else {
    auto tokenizer = MakeCharTokenizer(*text);
    if (!tokenizer.ok()) {
      if (const auto kind = FindFileKind(*text)) {
        return Annotated(WrongKind(options.text, *kind), "data.text");
      }
      return absl::InvalidArgumentError(StrCat(
          "data.text: ", options.text, ": ", std::string(tokenizer.status().message()),
          "; data.tokenizer = \"byte\" takes any file"));
    }
    parts.tokenizer = *std::move(tokenizer);
  }
  MNEMON_ASSIGN_OR_RETURN(auto other, WithOption(*parts.tokenizer, options));
  if (other != nullptr) parts.tokenizer = std::move(other);
  if (options.tokenizer != "char" && options.tokenizer != "byte") {
    // The tokens are not those of the text alone, so the content is another.
    parts.sha256 = Sha256Hex(*text + parts.tokenizer->ToJson());
  }
  const auto tokens = parts.tokenizer->Encode(*text);
  if (!tokens.ok()) {
    if (const auto kind = FindFileKind(*text)) {
      return Annotated(WrongKind(options.text, *kind), "data.text");
    }
    return Annotated(tokens.status(), StrCat("data.text: ", Quoted(options.text)));
  }
  const int64_t split = SplitOf(static_cast<int64_t>(tokens->size()), options);
  parts.train.assign(tokens->begin(), tokens->begin() + split);
  parts.validation.assign(tokens->begin() + split, tokens->end());
  return MakeTextTask(std::move(parts));
}

}  // namespace mnemon
