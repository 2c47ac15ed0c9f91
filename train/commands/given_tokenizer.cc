// SPDX-License-Identifier: MIT
#include "train/commands/given_tokenizer.h"

#include <string_view>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/text/chat_template.h"
#include "train/data/open_tokenizer.h"

namespace mnemon {
namespace {

constexpr int64_t kMaxAlphabetBytes = 64 << 20;
constexpr int64_t kMaxTokenizerConfigBytes = 1 << 20;
constexpr int64_t kMaxTextBytes = int64_t{1} << 30;

using Made = absl::StatusOr<std::unique_ptr<Tokenizer>>;

std::string WithNewlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\r') {
      out.push_back(text[at]);
      continue;
    }
    out.push_back('\n');
    if (at + 1 < text.size() && text[at + 1] == '\n') ++at;
  }
  return out;
}

Made OfChars(std::string_view text) { return MakeCharTokenizer(WithNewlines(text)); }

// The tokenizer that `make` makes of the text in the file.
template <int64_t kMaxBytes, Made (*make)(std::string_view text)>
Made OfText(const std::string& path) {
  MNEMON_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
  Made made = make(text);
  if (made.ok()) return made;
  if (const auto kind = FindFileKind(text)) return WrongKind(path, *kind);
  return Annotated(made.status(), Quoted(path));
}

// One way to give a tokenizer.
struct Source {
  const char* flag;
  std::string GivenTokenizer::*path;
  Made (*make)(const std::string& path);
  const char* hint;  // for a wrong size
};
constexpr Source kSources[] = {
    {"--tokenizer", &GivenTokenizer::tokenizer, OpenTokenizer,
     "give the one that the model was trained with"},
    {"--chars", &GivenTokenizer::chars, OfText<kMaxTextBytes, OfChars>,
     "give the text that the model was trained on, as much of it"},
    {"--alphabet", &GivenTokenizer::alphabet,
     OfText<kMaxAlphabetBytes, MakeOrderedCharTokenizer>,
     "a newline at the end of the file counts"},
};

}  // namespace

void AddTokenizerFlags(Command& command, GivenTokenizer& given) {
  constexpr char kNone[] = "none, only token ids work";
  Flag tokenizer = command
                       .Add("--tokenizer", &given.tokenizer,
                            "Its tokenizer.json, or a model that has it")
                       .Default(kNone);
  Flag chars =
      command
          .Add("--chars", &given.chars,
               "Text whose characters are its tokens, sorted by code point as labml "
               "sorts them: the text that it was trained on")
          .Default(kNone);
  command
      .Add("--alphabet", &given.alphabet,
           "Text with each of its characters once, in the order of their ids")
      .Default(kNone)
      .Excludes(tokenizer)
      .Excludes(chars);
  chars.Excludes(tokenizer);
  command
      .Add("--tokenizer-config", &given.config,
           "A tokenizer_config.json, whose chat_template the server uses")
      .Default("none, the default template");
}

absl::StatusOr<std::string> ReadTokenizerConfig(const GivenTokenizer& given) {
  if (given.config.empty()) return std::string();
  MNEMON_ASSIGN_OR_RETURN(std::string content,
                          ReadFile(given.config, kMaxTokenizerConfigBytes));
  const absl::Status status = ParseTokenizerConfig(content).status();
  if (!status.ok()) {
    return Annotated(status, StrCat("--tokenizer-config ", Quoted(given.config)));
  }
  return content;
}

Made ReadTokenizer(const GivenTokenizer& given, int64_t vocab) {
  for (const Source& source : kSources) {
    const std::string& path = given.*source.path;
    if (path.empty()) continue;
    Made made = source.make(path);
    if (!made.ok()) return Annotated(made.status(), source.flag);
    if ((*made)->size() != vocab) {
      return absl::InvalidArgumentError(
          StrCat(source.flag, " ", Quoted(path), " has ", (*made)->size(),
                 " tokens, the model has a vocab of ", vocab, ": ", source.hint,
                 "; it has ", (*made)->Describe()));
    }
    return made;
  }
  return nullptr;
}

}  // namespace mnemon
