// SPDX-License-Identifier: MIT
// Time to the first token of a session that was just used, of one whose idle state is
// in memory, and of one whose state is on disk.
#include <string>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/data_folder.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/session_calls.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

struct RestoreShape {
  int64_t sessions;
  int64_t tokens;  // per history, approximately
};
constexpr RestoreShape kRestoreFull = {300, 512};
constexpr RestoreShape kRestoreQuick = {40, 64};

// Far fewer than the sessions.
constexpr char kRestoreFewStates[] = "8388608";  // bytes: 21 states of fast_weights S

// Seconds to the first token of each session, once and then immediately again.
struct FirstTokens {
  std::vector<double> resting, live;
};

absl::StatusOr<FirstTokens> MeasureRestore(int port, const RestoreShape& shape) {
  const auto client = ConnectClient(port);
  // Connects.
  MNEMON_RETURN_IF_ERROR(client->GetSession(IdOf(0)).status());
  FirstTokens seconds;
  for (int64_t i = 0; i < shape.sessions; ++i) {
    MNEMON_ASSIGN_OR_RETURN(const double resting, Turn(*client, IdOf(i), 1, 1, 1));
    MNEMON_ASSIGN_OR_RETURN(const double live, Turn(*client, IdOf(i), 1, 1, 2));
    seconds.resting.push_back(resting);
    seconds.live.push_back(live);
  }
  return seconds;
}

void Compare(const std::string& what, const FirstTokens& seconds, double bar,
             BarResults& results) {
  const double live = Median(seconds.live);
  results.Note(what + ", just used: median", live * 1e3, "ms");
  results.Note(what + ": median", Median(seconds.resting) * 1e3, "ms");
  results.Note(what + ": p99", P99(seconds.resting) * 1e3, "ms");
  results.TimeAtMost(what + ": median, more than just used",
                     (Median(seconds.resting) - live) * 1e3, bar, "ms");
}

}  // namespace

absl::Status RunRestore(const ScenarioOptions& options, BarResults& results) {
  const RestoreShape& shape = options.quick ? kRestoreQuick : kRestoreFull;
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "S"));
  const DataFolder data(options.directory + "/data-restore");
  const std::vector<std::string> flags = {"--checkpoint", "m=" + model, "--data-dir",
                                          data.path()};
  MNEMON_ASSIGN_OR_RETURN(auto server, StartServer(options, flags));
  {
    Clients clients(server->port(), 4);
    MNEMON_RETURN_IF_ERROR(MakeSessions(clients, "m", 0, shape.sessions, shape.tokens));
  }
  MNEMON_ASSIGN_OR_RETURN(const FirstTokens memory,
                          MeasureRestore(server->port(), shape));
  Compare("state in memory", memory, 2, results);

  MNEMON_RETURN_IF_ERROR(EndServer(*server));
  MNEMON_ASSIGN_OR_RETURN(server, StartServer(options, flags));
  MNEMON_ASSIGN_OR_RETURN(const FirstTokens disk,
                          MeasureRestore(server->port(), shape));
  Compare("on the disk", disk, 10, results);

  MNEMON_RETURN_IF_ERROR(EndServer(*server));
  MNEMON_RETURN_IF_ERROR(data.DropFileCache());
  MNEMON_ASSIGN_OR_RETURN(server, StartServer(options, flags));
  MNEMON_ASSIGN_OR_RETURN(const FirstTokens cold,
                          MeasureRestore(server->port(), shape));
  Compare("on the disk, not in the file cache", cold, 10, results);

  MNEMON_RETURN_IF_ERROR(EndServer(*server));
  std::vector<std::string> few = flags;
  few.insert(few.end(), {"--state-bytes", kRestoreFewStates, "--running", "8"});
  MNEMON_ASSIGN_OR_RETURN(server, StartServer(options, few));
  MNEMON_RETURN_IF_ERROR(MeasureRestore(server->port(), shape).status());
  MNEMON_ASSIGN_OR_RETURN(const FirstTokens dropped,
                          MeasureRestore(server->port(), shape));
  Compare("history in memory, state dropped", dropped, 10, results);
  return absl::OkStatus();
}

}  // namespace mnemon::serving
