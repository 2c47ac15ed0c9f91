// SPDX-License-Identifier: MIT
#include "train/fit/process_check.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <vector>

#include <ATen/ops/empty.h>

#include "base/process/command_line.h"
#include "base/process/process.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// A line for everything that must be the same.
std::string Describe(const TrainConfig& config, const std::string& text_sha256) {
  std::string lines =
      StrCat("the program is ", Version(), " of commit ", Commit(), "\n");
  for (const auto& [key, value] : TrainFields(config)) {
    if (key == "out" || key == "data.text" || key == "train.from") continue;
    lines += StrCat(key, " is ", value, "\n");
  }
  return lines + StrCat("the SHA-256 of the text is ", text_sha256, "\n");
}

std::string FirstDifference(const std::string& here, const std::string& there) {
  std::istringstream a(here), b(there);
  std::string mine, theirs;
  while (std::getline(a, mine) && std::getline(b, theirs)) {
    if (mine != theirs) return StrCat(mine, " here, while in process 0 ", theirs);
  }
  return "its configuration has other keys than that of process 0";
}

}  // namespace

absl::Status CheckProcesses(const Launch& launch, const TrainConfig& config,
                            bool on_cpu) {
  if (launch.size == 1) return absl::OkStatus();
  const int64_t batch = config.data.batch;
  const int64_t most = on_cpu ? std::min(config.shards, batch) : batch;
  if ((launch.size & (launch.size - 1)) == 0 && launch.size <= most) {
    return absl::OkStatus();
  }
  return UsageError(
      StrCat("the environment's WORLD_SIZE is ", launch.size,
             ": it takes a power of two, at most ",
             on_cpu ? StrCat("train.shards (", config.shards, ") and ") : "",
             "data.batch (", batch, ")"));
}

absl::Status CheckSameEverywhere(ProcessGroup& group, const TrainConfig& config,
                                 const std::string& text_sha256) {
  const std::string own = Describe(config, text_sha256);
  std::string first = own;
  MNEMON_RETURN_IF_ERROR(group.BroadcastBytes(first));
  at::Tensor differs = at::empty({1}, at::kByte);
  *differs.data_ptr<uint8_t>() = own == first ? 0 : 1;
  at::Tensor all = at::empty({group.size(), 1}, at::kByte);
  MNEMON_RETURN_IF_ERROR(group.AllGather(differs, all));
  if (own != first) {
    return absl::FailedPreconditionError(
        StrCat("process ", group.rank(),
               " runs something else than process 0: ", FirstDifference(own, first)));
  }
  const uint8_t* const flags = all.data_ptr<uint8_t>();
  for (int p = 0; p < group.size(); ++p) {
    if (flags[p] == 0) continue;
    return absl::FailedPreconditionError(
        StrCat("process ", p, " runs something else than process 0: its message says ",
               "what"));
  }
  return absl::OkStatus();
}

}  // namespace mnemon
