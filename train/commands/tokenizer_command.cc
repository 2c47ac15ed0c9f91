// SPDX-License-Identifier: MIT
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/files/json.h"
#include "base/process/standard_output.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "model/text/bpe_trainer.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "train/commands/commands.h"
#include "train/data/open_tokenizer.h"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr int64_t kMostFileBytes = int64_t{1} << 30;

struct TokenizerFlags {
  std::string tokenizer;
  std::string file;
  bool plain = false;                       // of encode
  bool skip_special = false;                // of decode
  std::vector<std::string> texts, special;  // of train
  std::string out;
  int64_t vocab = 0;
};

// Calls one(value) for the JSON value of each line.
template <class One>
absl::Status ForLines(const std::string& file, const One& one) {
  MNEMON_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMostFileBytes));
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string where = StrCat(Quoted(file), ", line ", ++line);
    const std::string_view content = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (content.empty()) continue;
    MNEMON_ASSIGN_OR_RETURN(const json value, ParseJson(content, where));
    const absl::Status done = one(value);
    if (!done.ok()) return Annotated(done, where);
  }
  return absl::OkStatus();
}

absl::Status EncodeLines(const TokenizerFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                          OpenTokenizer(flags.tokenizer));
  return ForLines(flags.file, [&](const json& value) -> absl::Status {
    if (!value.is_string()) return absl::InvalidArgumentError("not a JSON string");
    const auto& text = value.get_ref<const std::string&>();
    MNEMON_ASSIGN_OR_RETURN(
        const std::vector<int32_t> ids,
        flags.plain ? tokenizer->Encode(text) : tokenizer->EncodeWhole(text));
    return WriteStandardOutput(StrCat("[", StrJoin(ids, ", "), "]\n"));
  });
}

absl::Status DecodeLines(const TokenizerFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                          OpenTokenizer(flags.tokenizer));
  return ForLines(flags.file, [&](const json& value) -> absl::Status {
    if (!value.is_array()) return absl::InvalidArgumentError("not an array of ids");
    std::vector<int32_t> ids;
    for (const json& id : value) {
      if (!id.is_number_integer() || id < 0 || id >= tokenizer->size()) {
        return absl::InvalidArgumentError(StrCat("element ", ids.size(), ", ",
                                                 id.dump(), ", is not an id in 0..",
                                                 tokenizer->size() - 1));
      }
      ids.push_back(id.get<int32_t>());
    }
    return WriteStandardOutput(
        json(tokenizer->DecodeText(ids, !flags.skip_special)).dump() + "\n");
  });
}

absl::Status TrainTokenizer(const TokenizerFlags& flags) {
  MNEMON_ASSIGN_OR_RETURN(BpeTrainer trainer, BpeTrainer::Create(flags.special));
  for (const std::string& file : flags.texts) {
    MNEMON_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMostFileBytes));
    if (!IsValidUtf8(text)) {
      if (const auto kind = FindFileKind(text)) return WrongKind(file, *kind);
      return absl::InvalidArgumentError(StrCat(Quoted(file), " is not UTF-8"));
    }
    MNEMON_RETURN_IF_ERROR(trainer.Add(text));
  }
  MNEMON_ASSIGN_OR_RETURN(const std::string made, trainer.Train(flags.vocab));
  MNEMON_RETURN_IF_ERROR(WriteFileDurably(flags.out, made));
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                          ParseTokenizer(made));
  return WriteStandardOutput(StrCat(flags.out, ": ", tokenizer->size(), " tokens (",
                                    tokenizer->Describe(), ")\n"));
}

}  // namespace

void AddTokenizerCommand(CommandLine& line) {
  Command parent = line.AddCommand(
      "tokenizer", "Tokenizers: what they make of texts, and new ones.",
      {"mnemon-train tokenizer encode texts.jsonl --tokenizer models/qwen",
       "mnemon-train tokenizer decode ids.jsonl --tokenizer models/qwen",
       "mnemon-train tokenizer train book.txt --vocab 8192 --out tokenizer.json"},
      nullptr);
  constexpr char kTokenizer[] =
      "A tokenizer.json, a model directory with one, or a GGUF file";

  auto encode = std::make_shared<TokenizerFlags>();
  Command command = line.AddCommand(
      "encode", "Reads JSON strings, one a line, and prints an array of ids for each.",
      {"mnemon-train tokenizer encode texts.jsonl --tokenizer models/qwen",
       "mnemon-train tokenizer encode texts.jsonl --tokenizer tokenizer.json --plain"},
      [encode] { return EncodeLines(*encode); }, &parent);
  command.Add("file", &encode->file, "File of JSON strings").Required();
  command.Add("--tokenizer,--checkpoint", &encode->tokenizer, kTokenizer).Required();
  command.Add("--plain", &encode->plain,
              "Without the tokens that the model has learned to see at the start and "
              "end of a text");

  auto decode = std::make_shared<TokenizerFlags>();
  command = line.AddCommand(
      "decode", "Reads arrays of ids, one a line, and prints a JSON string for each.",
      {"mnemon-train tokenizer decode ids.jsonl --tokenizer models/qwen",
       "mnemon-train tokenizer decode ids.jsonl --tokenizer models/qwen "
       "--skip-special"},
      [decode] { return DecodeLines(*decode); }, &parent);
  command.Add("file", &decode->file, "File of arrays of token ids").Required();
  command.Add("--tokenizer,--checkpoint", &decode->tokenizer, kTokenizer).Required();
  command.Add("--skip-special", &decode->skip_special, "Leave special tokens out");

  auto train = std::make_shared<TokenizerFlags>();
  command = line.AddCommand(
      "train", "Makes a tokenizer of byte pairs from texts.",
      {"mnemon-train tokenizer train book.txt --vocab 8192 --out tokenizer.json",
       "mnemon-train tokenizer train a.txt b.txt --vocab 32000 --special "
       "'<|endoftext|>' --out tokenizer.json"},
      [train] { return TrainTokenizer(*train); }, &parent);
  command.Add("text", &train->texts, "UTF-8 files").Required();
  command
      .Add("--vocab", &train->vocab,
           "Tokens at most: the special ones, the 256 bytes, and merges")
      .Required()
      .Between(256, 1 << 24);
  command.Add("--special", &train->special, "A special token; several by repetition")
      .Default("none");
  command.Add("--out", &train->out, "tokenizer.json to write").Required();
}

}  // namespace mnemon
