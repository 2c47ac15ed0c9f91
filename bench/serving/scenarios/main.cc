// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include <grpcpp/grpcpp.h>

#include "base/files/file.h"
#include "base/process/command_line.h"
#include "base/process/process.h"
#include "base/process/standard_output.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/scenarios/scenario.h"

namespace mnemon::serving {
namespace {

struct Entry {
  const char* name;
  const char* summary;
  Scenario run;
};

constexpr Entry kScenarios[] = {
    {"overload",
     "Three and ten times the calls that the server can serve: goodput, and the time "
     "that refusals take.",
     RunOverload},
    {"retry",
     "Streams that together want more state than there is, with gRPC's retries: every "
     "history is exact.",
     RunRetry},
    {"idle",
     "Streams that nobody reads and Score callers that send nothing: others are served "
     "within the idle limit.",
     RunIdle},
    {"two-models",
     "A small model beside a large one and beside an encoder: speed and token gaps.",
     RunTwoModels},
    {"many-sessions",
     "Thousands of sessions at rest beside streams: the time of short calls, and of a "
     "large session's end.",
     RunManySessions},
    {"slow-readers",
     "A hundred clients that read a token a second beside sixteen fast ones: memory, "
     "and the speed of the fast ones.",
     RunSlowReaders},
    {"cpu", "Processor time per streamed token beyond the model's step.", RunCpu},
    {"wire",
     "Attacks at the level of frames and connections: health meanwhile, memory, "
     "descriptors, new clients and the end afterwards.",
     RunWire},
    {"soak",
     "Calls of every kind, each on a new connection, for ten minutes: memory, "
     "descriptors and threads stay where they are.",
     RunSoak},
    {"scale",
     "A hundred thousand sessions in a store, ten thousand in memory: what they take, "
     "the time of calls beside them, and of a start.",
     RunScale},
    {"durability",
     "The speed of 64 streams whose sessions have durability none, turn and always.",
     RunDurability},
    {"restore",
     "The time to the first token of sessions at rest, in memory and on the disk.",
     RunRestore},
    {"fork", "How long a fork takes, whatever the history.", RunFork},
    {"demotion",
     "Streams beside sessions whose states go to the disk and come back: token gaps.",
     RunDemotion},
    {"beyond-memory",
     "A store ten times as large as the memory: turns on any session go on.",
     RunBeyondMemory},
    {"crowd",
     "As many empty sessions as a server takes: the speed of calls without a session.",
     RunCrowd},
    {"recovery", "A killed server with 64 streams: the time until all of them go on.",
     RunRecovery},
};

struct Flags {
  ScenarioOptions options;
  double slack = 1;
  bool untimed = false;
  std::string out;
};

std::string BesideThisBinary(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / name).string();
}

// A folder for checkpoints and logs: the given one, or a temporary one.
class WorkFolder {
 public:
  explicit WorkFolder(ScenarioOptions& options) {
    if (options.directory.empty()) {
      temporary_ = options.directory = (std::filesystem::temp_directory_path() /
                                        StrCat("mnemon-scenarios-", getpid()))
                                           .string();
    }
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

 private:
  std::string temporary_;
};

absl::Status RunScenario(const Entry& entry, Flags flags) {
  if (flags.options.server_binary.empty()) {
    flags.options.server_binary = BesideThisBinary("mnemon-server");
  }
  if (flags.options.bench_binary.empty()) {
    flags.options.bench_binary = BesideThisBinary("mnemon-bench");
  }
  const WorkFolder folder(flags.options);
  MNEMON_RETURN_IF_ERROR(MakeDirectories(flags.options.directory));
  MNEMON_ASSIGN_OR_RETURN(
      std::string server,
      RunToEnd(flags.options.directory, {flags.options.server_binary, "--version"},
               std::chrono::seconds(300)));
  server.resize(std::min(server.size(), server.find('\n')));
  BarResults results(entry.name, std::move(server), flags.slack, !flags.untimed);
  MNEMON_RETURN_IF_ERROR(entry.run(flags.options, results));
  MNEMON_RETURN_IF_ERROR(WriteStandardOutput(results.Table()));
  if (!flags.out.empty()) {
    MNEMON_RETURN_IF_ERROR(WriteFileDurably(flags.out, results.Json()));
  }
  if (results.passed()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      StrCat(entry.name, ": ", results.missed(), " bars were missed"));
}

void AddScenario(CommandLine& line, const Entry& entry) {
  auto flags = std::make_shared<Flags>();
  Command command = line.AddCommand(
      entry.name, entry.summary,
      {StrCat("mnemon-scenarios ", entry.name),
       StrCat("mnemon-scenarios ", entry.name, " --quick --slack 3 --out result.json")},
      [flags, &entry] { return RunScenario(entry, *flags); });
  ScenarioOptions& options = flags->options;
  command.Add("--server-binary", &options.server_binary, "Server to measure")
      .Default("mnemon-server beside this binary");
  command
      .Add("--bench-binary", &options.bench_binary,
           "mnemon-bench, which makes the checkpoints")
      .Default("the one beside this binary");
  command
      .Add("--work", &options.directory,
           "Folder for checkpoints and logs, kept for the next run")
      .Default("a temporary one");
  command
      .Add("--server-flag", &options.server_flags,
           "Further flag of the server; may be repeated")
      .Default("none");
  command.Add("--quick", &options.quick,
              "Shorter turns and smaller loads: from a few seconds to half a minute");
  if (entry.run == RunWire) {
    command
        .Add("--attack", &options.attacks,
             "Attack to run, or all (of them at once), or unread-log; may be repeated")
        .Default("each, one after the other");
  }
  if (entry.run == RunWire || entry.run == RunSoak) {
    command
        .Add("--seconds", &options.seconds,
             "Seconds that each attack, or the soak, takes; 0 = as usual")
        .Between(0, 86400, "seconds");
  }
  command.Add("--slack", &flags->slack, "How many times as wide the bars are")
      .Between(1, 100);
  command.Add(
      "--untimed", &flags->untimed,
      "Judge only what is counted: times, speeds and shares are shown, and waits "
      "end late; for a machine that does other things, too");
  command.Add("--out", &flags->out, "File that gets the result as JSON")
      .Default("none");
}

int Main(int argc, char** argv) {
  InitProcess();
  CommandLine line(
      "mnemon-scenarios",
      "Measures a server from outside, as its clients see it, against fixed bars.",
      {"mnemon-scenarios overload", "mnemon-scenarios two-models --quick --slack 3",
       "mnemon-scenarios cpu --server-binary build/release/bin/mnemon-server"},
      VersionText("mnemon-scenarios", "gRPC " + grpc::Version()));
  for (const Entry& entry : kScenarios) AddScenario(line, entry);
  return line.Run(argc, argv);
}

}  // namespace
}  // namespace mnemon::serving

int main(int argc, char** argv) { return mnemon::serving::Main(argc, argv); }
