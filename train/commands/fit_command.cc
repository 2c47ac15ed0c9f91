// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <c10/util/Exception.h>

#include "base/status_macros.h"
#include "base/strings.h"
#include "model/sequence/device.h"
#include "train/commands/commands.h"
#include "train/data/config.h"
#include "train/fit/fit.h"
#include "train/parallel/launch.h"

namespace mnemon {
namespace {

struct FitFlags {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
  std::string device = "cpu";
  int threads = 0;
  int peer_timeout = 300;
  bool resume = false;
  bool print_config = false;
};

// A word as a shell reads it back.
std::string ShellWord(const std::string& word) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string ResumeCommand(const FitFlags& flags) {
  std::string command = "mnemon-train fit --config " + ShellWord(flags.config);
  for (const std::string& assignment : flags.overrides) {
    command += " --set " + ShellWord(assignment);
  }
  if (!flags.out.empty()) command += " --out " + ShellWord(flags.out);
  if (flags.device != "cpu") command += " --device " + flags.device;
  return command + " --resume";
}

absl::Status RunFit(const FitFlags& flags) {
  const absl::StatusOr<at::Device> device = FindDevice(flags.device);
  if (!device.ok()) return UsageError(std::string(device.status().message()));
  auto config = LoadTrainConfig(flags.config, flags.overrides);
  if (!config.ok()) {
    return absl::IsInvalidArgument(config.status())
               ? UsageError(std::string(config.status().message()))
               : config.status();
  }
  if (!flags.out.empty()) config->out = flags.out;
  if (flags.print_config) {
    std::printf("%s", FormatTrainConfig(*config, /*comments=*/true).c_str());
    return absl::OkStatus();
  }
  if (config->out.empty()) {
    return UsageError("where to? give --out DIR or set `out` in " + flags.config);
  }
  const auto launch =
      ReadLaunch([](const char* name) -> const char* { return std::getenv(name); });
  if (!launch.ok()) return UsageError(std::string(launch.status().message()));
  try {
    return Fit({.config = *std::move(config),
                .resume = flags.resume,
                .device = *device,
                .threads = flags.threads,
                .launch = *launch,
                .peer_timeout = std::chrono::seconds(flags.peer_timeout),
                .resume_command = ResumeCommand(flags)});
  } catch (const c10::Error& error) {
    return absl::InternalError(
        StrCat("libtorch: ", std::string(error.what_without_backtrace())));
  }
}

}  // namespace

void AddFitCommand(CommandLine& line) {
  auto flags = std::make_shared<FitFlags>();
  Command fit = line.AddCommand(
      "fit", "Trains a model on a text, or on the reverse task.",
      {StrCat("mnemon-train fit --config train/configs/feedback-small.toml ",
              "--set data.text=a.txt"),
       "mnemon-train fit --config train/configs/tasks/reverse.toml    # needs no text",
       "mnemon-train fit --config run.toml --set train.steps=500 optimiser.lr=1e-3",
       StrCat("mnemon-train fit --config run.toml --resume       ",
              "# bit for bit as uninterrupted"),
       StrCat("torchrun --nproc-per-node 4 --no-python mnemon-train fit --config ",
              "run.toml    # in 4 processes"),
       StrCat("mnemon-train fit --config run.toml --print-config ",
              "# every key and what it means")},
      [flags] { return RunFit(*flags); });
  fit.Add("--config", &flags->config, "TOML file of the run").Required();
  fit.Add("--set", &flags->overrides, "Override a key of the file: table.key=value")
      .Default("none");
  fit.Add("--out", &flags->out, "Directory of the run").Default("`out` of the file");
  fit.Add("--resume", &flags->resume, "Continue from the newest checkpoint in it");
  fit.Add("--device", &flags->device, "Where to compute: cpu or cuda");
  fit.Add("--threads", &flags->threads,
          "Cores to use, which changes no bit; 0 = all it may use; with cuda one")
      .Between(0, 1024);
  fit.Add("--peer-timeout", &flags->peer_timeout,
          "Seconds to wait for another process of the run before it counts as lost")
      .Between(1, 86400);
  fit.Add("--print-config", &flags->print_config,
          "Print the complete configuration and exit");
}

}  // namespace mnemon
