// SPDX-License-Identifier: MIT
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "model/families/families.h"
#include "model/io/checkpoint.h"
#include "model/io/import_labml.h"
#include "train/commands.h"
#include "train/given_tokenizer.h"

namespace mnemon {
namespace {

struct ImportFlags {
  std::string from;
  std::string config;
  std::string weights;
  std::string out;
  GivenTokenizer tokenizer;
  bool convert_000 = false;
};

absl::Status RunImport(const ImportFlags& flags) {
  constexpr int64_t kMaxConfigBytes = 1 << 20;
  if (flags.from != "labml") {
    return UsageError(
        StrCat("--from ", Quoted(flags.from), " is not known: use labml"));
  }
  MNEMON_ASSIGN_OR_RETURN(const std::string config,
                          ReadFile(flags.config, kMaxConfigBytes));
  MNEMON_ASSIGN_OR_RETURN(const Safetensors weights, Safetensors::Read(flags.weights));
  const absl::StatusOr<ImportedModel> imported =
      ImportLabml(config, weights, flags.convert_000);
  if (!imported.ok()) {
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
  const std::string parent = std::filesystem::path(flags.out).parent_path().string();
  if (!parent.empty()) MNEMON_RETURN_IF_ERROR(MakeDirectories(parent));
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
      "import", "Makes a checkpoint of a model trained elsewhere.",
      {"mnemon-train import --from labml --config config.json --weights "
       "weights.safetensors --chars tiny_shakespeare.txt --out checkpoint"},
      [flags] { return RunImport(*flags); });
  command.Add("--from", &flags->from, "Where the model comes from: labml").Required();
  command.Add("--config", &flags->config, "JSON file of its sizes").Required();
  command.Add("--weights", &flags->weights, "Safetensors file of its state_dict")
      .Required();
  command.Add("--out", &flags->out, "Checkpoint directory to write").Required();
  AddTokenizerFlags(command, flags->tokenizer);
  command.Add("--convert-000", &flags->convert_000,
              "Write a feedback model of seed_form 000 in the free form of 002");
}

}  // namespace mnemon
