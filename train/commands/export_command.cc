// SPDX-License-Identifier: MIT
#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/files/file.h"
#include "base/process/standard_output.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/load/foreign_export.h"
#include "train/commands/commands.h"

namespace mnemon {
namespace {

struct ExportFlags {
  std::string checkpoint;
  std::string to;
  std::string out;
};

absl::Status RunExport(const ExportFlags& flags) {
  if (flags.to != "hf") {
    return UsageError(StrCat("--to ", Quoted(flags.to), " is not known: use hf"));
  }
  std::string out = flags.out;
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  const std::string parent = std::filesystem::path(out).parent_path().string();
  if (!parent.empty()) MNEMON_RETURN_IF_ERROR(MakeDirectories(parent));
  MNEMON_RETURN_IF_ERROR(ExportToHuggingFace(flags.checkpoint, out));
  return WriteStandardOutput(StrCat(out, " is written\n"));
}

}  // namespace

void AddExportCommand(CommandLine& line) {
  auto flags = std::make_shared<ExportFlags>();
  Command command = line.AddCommand(
      "export", "Writes a model as a directory of Hugging Face.",
      {"mnemon-train export --to hf --checkpoint runs/llama-small/best --out llama",
       "mnemon-train export --to hf --checkpoint model.gguf --out model"},
      [flags] { return RunExport(*flags); });
  command.Add("--to", &flags->to, "What is written: hf").Required();
  command
      .Add("--checkpoint", &flags->checkpoint,
           "Checkpoint of a llama, directory of Hugging Face, or GGUF file")
      .Required();
  command.Add("--out", &flags->out, "Directory to write, which must not be there")
      .Required();
}

}  // namespace mnemon
