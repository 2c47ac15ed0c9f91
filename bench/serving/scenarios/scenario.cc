// SPDX-License-Identifier: MIT
#include "bench/serving/scenarios/scenario.h"

#include <filesystem>

#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon::serving {

absl::StatusOr<std::string> Checkpoint(const ScenarioOptions& options,
                                       const std::string& architecture,
                                       const std::string& size,
                                       const std::vector<std::string>& set) {
  std::string name = StrCat(architecture, "-", size);
  for (const std::string& pair : set) name += "-" + pair;
  const std::string path = StrCat(options.directory, "/", name);
  if (std::filesystem::exists(path + "/config.json")) return path;
  std::vector<std::string> words = {options.bench_binary,
                                    "checkpoint",
                                    "--arch",
                                    architecture,
                                    "--size",
                                    size,
                                    "--out",
                                    path};
  for (const std::string& pair : set) words.insert(words.end(), {"--set", pair});
  MNEMON_RETURN_IF_ERROR(
      RunToEnd(options.directory, words, std::chrono::seconds(300)).status());
  return path;
}

absl::StatusOr<std::unique_ptr<TestServer>> StartServer(const ScenarioOptions& options,
                                                        std::vector<std::string> flags,
                                                        const StartOptions& start) {
  flags.insert(flags.end(), options.server_flags.begin(), options.server_flags.end());
  return TestServer::Start(options.server_binary, flags, options.directory, start);
}

absl::Status EndServer(TestServer& server) {
  if (server.Stop(std::chrono::seconds(300)) == 0) return absl::OkStatus();
  return absl::DeadlineExceededError("the server does not end");
}

}  // namespace mnemon::serving
