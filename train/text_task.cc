// SPDX-License-Identifier: MIT
#include "train/text_task.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{4} << 30;
// Tokens of the validation text that start a sample when no prompt is set.
constexpr size_t kDefaultPrompt = 16;

class TextTask final : public Task {
 public:
  explicit TextTask(TextParts parts) : parts_(std::move(parts)) {}

  int64_t vocab() const override { return parts_.tokenizer->size(); }
  std::string Describe() const override {
    return absl::StrFormat("text: %d training and %d validation tokens of %d kinds",
                           parts_.train.size(), parts_.validation.size(), vocab());
  }
  const Tokenizer* tokenizer() const override { return parts_.tokenizer.get(); }
  const std::string& sha256() const override { return parts_.sha256; }

  absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(const DataOptions& options,
                                                     LoaderUse use,
                                                     uint64_t seed) const override {
    if (use == LoaderUse::kTest) return nullptr;
    const bool training = use == LoaderUse::kTraining;
    return mnemon::MakeLoader(training ? parts_.train : parts_.validation, options, use,
                              seed);
  }

  absl::StatusOr<std::vector<int32_t>> Prompt(
      const std::string& wanted) const override {
    if (wanted.empty()) {
      const size_t length = std::min(kDefaultPrompt, parts_.validation.size());
      return std::vector<int32_t>(parts_.validation.begin(),
                                  parts_.validation.begin() + length);
    }
    auto prompt = parts_.tokenizer->Encode(wanted);
    if (prompt.ok()) return prompt;
    return absl::InvalidArgumentError(
        StrCat("sample.prompt: ", std::string(prompt.status().message())));
  }

 private:
  const TextParts parts_;
};

}  // namespace

std::unique_ptr<Task> MakeTextTask(TextParts parts) {
  return std::make_unique<TextTask>(std::move(parts));
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  // People may keep texts behind links; ReadFile takes regular files only.
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  return ReadFile(error ? path : real, kMaxTextBytes);
}

absl::StatusOr<std::unique_ptr<Task>> LoadTextTask(const DataOptions& options) {
  auto text = ReadText(options.text);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        StrCat("data.text: ", std::string(text.status().message())));
  }
  TextParts parts;
  parts.sha256 = Sha256Hex(*text);
  if (options.tokenizer == TokenizerKind::kByte) {
    parts.tokenizer = MakeByteTokenizer();
  } else {
    auto tokenizer = MakeCharTokenizer(*text);
    if (!tokenizer.ok()) {
      return absl::InvalidArgumentError(StrCat(
          "data.text: ", options.text, ": ", std::string(tokenizer.status().message()),
          "; data.tokenizer = \"byte\" takes any file"));
    }
    parts.tokenizer = *std::move(tokenizer);
  }
  MNEMON_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, parts.tokenizer->Encode(*text));
  const auto split = static_cast<int64_t>(static_cast<double>(tokens.size()) *
                                          (1.0 - options.validation));
  parts.train.assign(tokens.begin(), tokens.begin() + split);
  parts.validation.assign(tokens.begin() + split, tokens.end());
  return MakeTextTask(std::move(parts));
}

}  // namespace mnemon
