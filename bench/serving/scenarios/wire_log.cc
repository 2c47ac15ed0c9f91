// SPDX-License-Identifier: MIT
// A server under load whose standard error nobody reads, as with a stopped terminal:
// nothing waits for it, and lost lines are counted.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/scenarios/wire.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr int kWireLogCallers = 8;
constexpr int kPipeBytes = 4096;
constexpr double kSlower = 0.7;  // share of the calls of the first part in the last
constexpr double kLosing = 60;   // seconds after which lines must have been lost
constexpr double kLogGrace = 1;  // seconds

// A FIFO that is full, and stays full.
class FullPipe {
 public:
  static absl::StatusOr<std::unique_ptr<FullPipe>> Make(const std::string& path) {
    std::filesystem::remove(path);
    if (mkfifo(path.c_str(), 0600) != 0) {
      return absl::InternalError("mkfifo " + path);
    }
    const int fd = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fcntl(fd, F_SETPIPE_SZ, kPipeBytes) < 0) {
      return absl::InternalError("open " + path);
    }
    const std::string page(kPipeBytes, '\n');
    while (write(fd, page.data(), page.size()) > 0) {
    }
    return std::unique_ptr<FullPipe>(new FullPipe(fd));
  }
  ~FullPipe() { close(fd_); }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

 private:
  explicit FullPipe(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace

absl::Status LeaveLogUnread(const ScenarioOptions& options, double seconds,
                            BarResults& results) {
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "XS"));
  const std::string path = options.directory + "/unread";
  MNEMON_ASSIGN_OR_RETURN(const auto pipe, FullPipe::Make(path));
  MNEMON_ASSIGN_OR_RETURN(
      const auto server,
      StartServer(options, {"--checkpoint", model},
                  {.launcher = {"/bin/sh", "-c", "exec \"$@\" 2> \"$0\"", path},
                   .grace = StrCat(results.Patience(kLogGrace))}));
  Watch watch(*server, results);
  client::LoadOptions load = LoadOf("", 8, 100);
  load.concurrency = kWireLogCallers;
  load.seconds = seconds;
  load.deadline =
      std::chrono::ceil<std::chrono::milliseconds>(Seconds(results.Patience(10)));
  MNEMON_ASSIGN_OR_RETURN(const auto calls, RunLoad(server->port(), load));
  const Watched watched = watch.Stop();
  MNEMON_ASSIGN_OR_RETURN(const MetricsPage page, server->Metrics());
  const TimePoint begin = BeginOf(calls);
  const auto part = [&](double from, double to) {
    const auto at = [&](double share) {
      return begin + std::chrono::duration_cast<SteadyClock::duration>(
                         Seconds(share * seconds));
    };
    return TokensPerSecond(calls, {at(from), at(to)});
  };
  results.Note("unread-log: calls", static_cast<double>(calls.size()), "");
  results.Exactly("unread-log: calls that failed",
                  static_cast<double>(
                      std::count_if(calls.begin(), calls.end(),
                                    [](const CallRecord& call) { return !call.ok(); })),
                  0, "");
  results.Note("unread-log: tokens in the first third", part(0, 0.33), "tokens/s");
  results.ShareAtLeast("unread-log: speed of the last third, share of the first",
                       std::min(1.0, part(0.67, 1) / std::max(part(0, 0.33), 1.0)),
                       kSlower);
  const double lost = page.Sum("mnemon_log_lines_total", {"outcome=\"lost\""});
  results.Note("unread-log: lines lost", lost, "");
  // Earlier, all lines written in a second may still be queued.
  if (seconds >= kLosing) {
    results.Exactly("unread-log: no line is counted as lost", lost > 0 ? 0 : 1, 0, "");
  }
  results.Exactly("unread-log: /healthz other than 200", watched.not_alive, 0, "looks");
  results.Exactly("unread-log: no health check on a new connection",
                  watched.not_reached, 0, "looks");
  const TimePoint term = SteadyClock::now();
  const std::optional<int> code = server->Stop(std::chrono::seconds(300));
  results.TimeAtMost("unread-log: from SIGTERM to the end",
                     Seconds(SteadyClock::now() - term).count(), kLogGrace + 2, "s");
  results.Exactly("unread-log: exit code", code.value_or(-1), 0, "");
  return absl::OkStatus();
}

}  // namespace mnemon::serving
