// SPDX-License-Identifier: MIT
#include "client/commands/prompt_flags.h"

#include "base/strings.h"
#include "client/commands/read_text.h"

namespace mnemon::client {

void AddPromptFlags(Command command, PromptFlags& flags, const std::string& use) {
  Flag text = command.Add("--prompt", &flags.text, "Text " + use).Default("no text");
  Flag tokens = command
                    .Add("--prompt-tokens", &flags.tokens,
                         StrCat("Token ids ", use, ", with commas: 1,2,3"))
                    .WithCommas()
                    .Default("no ids");
  Flag file = command
                  .Add("--text", &flags.file,
                       StrCat("File with the text ", use, "; - = standard input"))
                  .Default("no file");
  text.Excludes(file).Excludes(tokens);
  file.Excludes(tokens);
  command
      .Add("--unknown-characters", &flags.unknown,
           "Characters that the model's vocabulary lacks: refuse the text, skip them, "
           "or "
           "replace them")
      .OneOf({"refuse", "skip", "replace"})
      .Default("as the model's tokenizer says");
}

UnknownCharacters UnknownOf(const PromptFlags& flags) {
  if (flags.unknown.empty()) return UnknownCharacters::kAsModel;
  if (flags.unknown == "skip") return UnknownCharacters::kSkip;
  return flags.unknown == "replace" ? UnknownCharacters::kReplace
                                    : UnknownCharacters::kRefuse;
}

absl::Status ReadPromptFile(PromptFlags& flags, size_t max_bytes) {
  if (flags.file.empty()) return absl::OkStatus();
  auto text = ReadText(flags.file, max_bytes);
  if (text.ok()) {
    flags.text = *std::move(text);
    return absl::OkStatus();
  }
  const char* const way_out = absl::IsNotFound(text.status())
                                  ? "; it names a file, text itself goes to --prompt"
                                  : "";
  return absl::Status(text.status().code(),
                      StrCat("--text: ", text.status().message(), way_out));
}

}  // namespace mnemon::client
