// SPDX-License-Identifier: MIT
#include "train/text_task.h"

#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{4} << 30;

}  // namespace

absl::StatusOr<TextTask> LoadTextTask(const DataOptions& options) {
  // People may keep texts behind links; ReadFile takes regular files only.
  std::error_code error;
  std::string real = std::filesystem::canonical(options.text, error).string();
  auto text = ReadFile(error ? options.text : real, kMaxTextBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        StrCat("data.text: ", std::string(text.status().message())));
  }
  TextTask task;
  task.sha256 = Sha256Hex(*text);
  if (options.tokenizer == TokenizerKind::kByte) {
    task.tokenizer = MakeByteTokenizer();
  } else {
    auto tokenizer = MakeCharTokenizer(*text);
    if (!tokenizer.ok()) {
      return absl::InvalidArgumentError(StrCat(
          "data.text: ", options.text, ": ", std::string(tokenizer.status().message()),
          "; data.tokenizer = \"byte\" takes any file"));
    }
    task.tokenizer = *std::move(tokenizer);
  }
  MNEMON_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, task.tokenizer->Encode(*text));
  const auto split = static_cast<int64_t>(static_cast<double>(tokens.size()) *
                                          (1.0 - options.validation));
  task.train.assign(tokens.begin(), tokens.begin() + split);
  task.validation.assign(tokens.begin() + split, tokens.end());
  return task;
}

}  // namespace mnemon
