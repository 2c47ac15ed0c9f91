// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/thread_pool.h"
#include "train/commands/commands.h"
#include "train/commands/unknown_characters.h"
#include "train/data/token_file.h"
#include "train/data/tokenize.h"

namespace mnemon {
namespace {

struct TokenizeFlags {
  std::vector<std::string> texts;
  std::string out;
  std::string tokenizer = "char";
  std::string unknown_characters;
  int32_t threads = 0;
};

// A text must not be lost to a mistyped name.
absl::Status CheckReplaceable(const std::string& out) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(out, failed) || IsTokenFile(out)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      StrCat("--out ", Quoted(out), " exists and is not a token file; not replaced"));
}

// A line on standard error now and then.
class TokenizeProgress {
 public:
  void operator()(int64_t done, int64_t bytes) {
    constexpr std::chrono::seconds kPause(5);
    if (clock_.Now() - said_ < kPause) return;
    said_ = clock_.Now();
    std::fprintf(stderr, "%3.0f %% of two readings of %.1f MB\n",
                 100 * static_cast<double>(done) / static_cast<double>(bytes),
                 static_cast<double>(bytes) / 2e6);
  }

 private:
  const Clock& clock_ = Clock::Real();
  std::chrono::steady_clock::time_point said_ = clock_.Now();
};

absl::Status RunTokenize(const TokenizeFlags& flags) {
  MNEMON_RETURN_IF_ERROR(CheckReplaceable(flags.out));
  const Clock& clock = Clock::Real();
  const auto begin = clock.Now();
  MNEMON_ASSIGN_OR_RETURN(
      const TokenizeResult made,
      TokenizeTexts({.texts = flags.texts,
                     .out = flags.out,
                     .tokenizer = flags.tokenizer,
                     .unknown = UnknownCharactersOf(flags.unknown_characters),
                     .threads = flags.threads > 0 ? flags.threads : UsableCores(),
                     .progress = TokenizeProgress()}));
  const std::chrono::duration<double> seconds = clock.Now() - begin;
  std::printf("%s\n", absl::StrFormat(
                          "%s: %d tokens of %d kinds (%s), %d bytes; %d bytes of text, "
                          "%.0f MB/s",
                          flags.out, made.tokens, made.tokenizer->size(),
                          made.tokenizer->Describe(), made.file_bytes, made.text_bytes,
                          static_cast<double>(made.text_bytes) / 1e6 / seconds.count())
                          .c_str());
  return absl::OkStatus();
}

}  // namespace

void AddTokenizeCommand(CommandLine& line) {
  auto flags = std::make_shared<TokenizeFlags>();
  Command command = line.AddCommand(
      "tokenize",
      "Writes texts as a file of tokens, which fit reads where it lies: for texts "
      "beyond "
      "memory.",
      {"mnemon-train tokenize book.txt --out book.tokens",
       "mnemon-train tokenize a.txt b.txt --out both.tokens --tokenizer byte",
       "mnemon-train tokenize new.txt --out new.tokens --tokenizer run/best",
       "mnemon-train fit --config run.toml --set data.text=book.tokens"},
      [flags] { return RunTokenize(*flags); });
  command.Add("text", &flags->texts, "Files, which become one text in this order")
      .Required();
  command.Add("--out", &flags->out, "Token file to write").Required();
  command.Add("--tokenizer", &flags->tokenizer,
              "char (of all characters of the texts), byte, or that of a model or a "
              "tokenizer.json");
  AddUnknownCharactersFlag(command, flags->unknown_characters);
  command
      .Add("--threads", &flags->threads,
           "Cores to use; 0 = all. The file does not depend on it")
      .Between(0, 1024);
}

}  // namespace mnemon
