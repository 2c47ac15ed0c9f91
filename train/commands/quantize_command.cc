// SPDX-License-Identifier: MIT
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "base/files/file.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/checkpoint.h"
#include "model/load/quantise.h"
#include "train/commands/commands.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

struct QuantizeFlags {
  std::string checkpoint;
  std::string precision = "int8";
  std::string out;
};

// Replaces no checkpoint: they take time to make.
absl::Status CheckIsNew(const std::string& out) {
  std::error_code failed;
  const bool there = fs::exists(fs::symlink_status(out, failed));
  if (!there || (fs::is_directory(out, failed) && fs::is_empty(out, failed))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      StrCat("--out ", Quoted(out), " exists; not replaced"));
}

// The record of the training, where there is one: eval takes the length of its windows
// from it.
absl::Status KeepConfig(const std::string& from, CheckpointContent& content) {
  absl::StatusOr<std::string> config = ReadTrainingFile(from, "config.toml");
  if (absl::IsNotFound(config.status())) return absl::OkStatus();
  MNEMON_RETURN_IF_ERROR(config.status());
  content["training/config.toml"] = *std::move(config);
  return absl::OkStatus();
}

absl::Status RunQuantize(const QuantizeFlags& flags) {
  if (flags.precision != "int8") {
    return UsageError(StrCat("--precision ", Quoted(flags.precision),
                             " has no checkpoint of its own: use int8"));
  }
  std::string out = flags.out;
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  MNEMON_RETURN_IF_ERROR(CheckIsNew(out));
  MNEMON_ASSIGN_OR_RETURN(QuantisedCheckpoint made,
                          QuantiseCheckpoint(flags.checkpoint));
  MNEMON_RETURN_IF_ERROR(KeepConfig(flags.checkpoint, made.content));
  const std::string parent = fs::path(out).parent_path().string();
  if (!parent.empty()) MNEMON_RETURN_IF_ERROR(MakeDirectories(parent));
  MNEMON_RETURN_IF_ERROR(WriteCheckpoint(out, made.content, made.source));
  std::printf("%s: int8, %zu bytes of weights in place of %lld; model_id %s\n",
              out.c_str(), made.content.at("model.safetensors").size(),
              static_cast<long long>(made.source_bytes), made.source.model_id.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddQuantizeCommand(CommandLine& line) {
  auto flags = std::make_shared<QuantizeFlags>();
  Command command = line.AddCommand(
      "quantize",
      "Writes the int8 form of a checkpoint, a quarter of its size (of "
      "fast_weights half).",
      {"mnemon-train quantize run/best --precision int8 --out best-int8"},
      [flags] { return RunQuantize(*flags); });
  command.Add("checkpoint", &flags->checkpoint, "Checkpoint directory, of fp32 weights")
      .Required();
  command.Add("--precision", &flags->precision, "Of the matrices: int8");
  command.Add("--out", &flags->out, "Checkpoint directory to write, a new one")
      .Required();
}

}  // namespace mnemon
