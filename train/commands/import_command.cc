// SPDX-License-Identifier: MIT
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "model/families/families.h"
#include "model/io/checkpoint.h"
#include "model/io/gguf_files.h"
#include "model/io/import_labml.h"
#include "model/load/model_files.h"
#include "train/commands/commands.h"
#include "train/commands/given_tokenizer.h"

namespace mnemon {
namespace {

struct ImportFlags {
  std::string file;
  std::string from;
  std::string config;
  std::string weights;
  std::string out;
  GivenTokenizer tokenizer;
  bool convert_000 = false;
};

absl::Status MakeParentOf(const std::string& dir) {
  const std::string parent = std::filesystem::path(dir).parent_path().string();
  return parent.empty() ? absl::OkStatus() : MakeDirectories(parent);
}

// Writes nothing if the file could not be served.
absl::Status ImportGguf(const ImportFlags& flags) {
  if (flags.file.empty()) return UsageError("--from gguf needs the FILE");
  if (!flags.config.empty() || !flags.weights.empty() || flags.convert_000 ||
      flags.tokenizer.given()) {
    return UsageError("--from gguf takes FILE and --out alone");
  }
  if (!IsGgufFile(flags.file)) {
    MNEMON_RETURN_IF_ERROR(CheckFileKind(flags.file));
    return absl::InvalidArgumentError(
        StrCat(Quoted(flags.file), " is not a GGUF file"));
  }
  MNEMON_ASSIGN_OR_RETURN(ModelFiles files, ReadModelFiles(flags.file));
  MNEMON_RETURN_IF_ERROR(files.verified.get().status());
  std::string out = flags.out;
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  MNEMON_RETURN_IF_ERROR(MakeParentOf(out));
  MNEMON_RETURN_IF_ERROR(WriteGgufAsDirectory(flags.file, out));
  std::printf("%s: %s, %lld parameters, %s\n", flags.out.c_str(),
              files.architecture.c_str(), static_cast<long long>(files.parameters()),
              files.tokenizer != nullptr ? files.tokenizer->Describe().c_str()
              : files.no_tokenizer.ok()
                  ? "no tokenizer: only token ids work"
                  : std::string(files.no_tokenizer.message()).c_str());
  return absl::OkStatus();
}

absl::Status RunImport(const ImportFlags& flags) {
  constexpr int64_t kMaxConfigBytes = 1 << 20;
  if (flags.from == "gguf") return ImportGguf(flags);
  if (flags.from != "labml") {
    return UsageError(
        StrCat("--from ", Quoted(flags.from), " is not known: use labml or gguf"));
  }
  if (!flags.file.empty() || flags.config.empty() || flags.weights.empty()) {
    return UsageError("--from labml takes --config and --weights, and no FILE");
  }
  MNEMON_ASSIGN_OR_RETURN(const std::string config,
                          ReadFile(flags.config, kMaxConfigBytes));
  MNEMON_ASSIGN_OR_RETURN(const Safetensors weights, Safetensors::Read(flags.weights));
  const absl::StatusOr<ImportedModel> imported =
      ImportLabml(config, weights, flags.convert_000);
  if (!imported.ok()) {
    if (const auto kind = FindJsonKind(config)) return WrongKind(flags.config, *kind);
    return Annotated(imported.status(),
                     StrCat(Quoted(flags.config), " with ", Quoted(flags.weights)));
  }
  MNEMON_RETURN_IF_ERROR(DescribeModel(imported->config).status());
  CheckpointContent content = {{"config.json", ConfigToJson(imported->config)},
                               {"model.safetensors", imported->weights}};
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                          ReadTokenizer(flags.tokenizer, imported->config.vocab));
  if (tokenizer != nullptr) content["tokenizer.json"] = tokenizer->ToJson();
  MNEMON_ASSIGN_OR_RETURN(const std::string tokenizer_config,
                          ReadTokenizerConfig(flags.tokenizer));
  if (!tokenizer_config.empty()) content["tokenizer_config.json"] = tokenizer_config;
  MNEMON_RETURN_IF_ERROR(MakeParentOf(flags.out));
  MNEMON_RETURN_IF_ERROR(WriteCheckpoint(flags.out, content));
  std::printf("%s: %s, %zu bytes of weights, %s\n", flags.out.c_str(),
              imported->config.architecture.c_str(), imported->weights.size(),
              tokenizer == nullptr ? "no tokenizer: only token ids work"
                                   : tokenizer->Describe().c_str());
  return absl::OkStatus();
}

}  // namespace

void AddImportCommand(CommandLine& line) {
  auto flags = std::make_shared<ImportFlags>();
  Command command = line.AddCommand(
      "import", "Makes a directory of a model trained elsewhere.",
      {"mnemon-train import --from labml --config config.json --weights "
       "weights.safetensors --chars tiny_shakespeare.txt --out checkpoint",
       "mnemon-train import --from gguf model.gguf --out model"},
      [flags] { return RunImport(*flags); });
  command.Add("file", &flags->file, "Of gguf: the GGUF file").Default("none");
  command.Add("--from", &flags->from, "Where the model comes from: labml, gguf")
      .Required();
  command.Add("--config", &flags->config, "Of labml: JSON file of its sizes")
      .Default("none");
  command
      .Add("--weights", &flags->weights, "Of labml: safetensors file of its state_dict")
      .Default("none");
  command
      .Add("--out", &flags->out,
           "Directory to write: of labml a checkpoint, of "
           "gguf one of Hugging Face, which must not be there")
      .Required();
  AddTokenizerFlags(command, flags->tokenizer);
  command.Add("--convert-000", &flags->convert_000,
              "Write a feedback model of seed_form 000 in the free form of 002");
}

}  // namespace mnemon
