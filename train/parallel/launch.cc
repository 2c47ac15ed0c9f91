// SPDX-License-Identifier: MIT
#include "train/parallel/launch.h"

#include <charconv>
#include <string_view>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

absl::StatusOr<int> Number(const char* name, const char* value, int least, int most) {
  int number = 0;
  const std::string_view text = value;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least ||
      number > most) {
    return absl::InvalidArgumentError(StrCat("the environment's ", name, " is ",
                                             Quoted(value), ": it takes ", least,
                                             " to ", most));
  }
  return number;
}

}  // namespace

absl::StatusOr<Launch> ReadLaunch(const std::function<const char*(const char*)>& get) {
  constexpr int kMostProcesses = 1024;
  Launch launch;
  const char* const size = get("WORLD_SIZE");
  if (size == nullptr) return launch;
  MNEMON_ASSIGN_OR_RETURN(launch.size, Number("WORLD_SIZE", size, 1, kMostProcesses));
  if (launch.size == 1) return launch;
  const auto required = [&](const char* name) -> absl::StatusOr<const char*> {
    const char* const value = get(name);
    if (value != nullptr && *value != '\0') return value;
    return absl::InvalidArgumentError(StrCat("the environment's WORLD_SIZE is ",
                                             launch.size, ", but ", name,
                                             " is missing"));
  };
  MNEMON_ASSIGN_OR_RETURN(const char* const rank, required("RANK"));
  MNEMON_ASSIGN_OR_RETURN(launch.rank, Number("RANK", rank, 0, launch.size - 1));
  MNEMON_ASSIGN_OR_RETURN(const char* const address, required("MASTER_ADDR"));
  launch.address = address;
  MNEMON_ASSIGN_OR_RETURN(const char* const port, required("MASTER_PORT"));
  const char* const agent = get("TORCHELASTIC_USE_AGENT_STORE");
  const bool taken = agent != nullptr && std::string_view(agent) == "True";
  MNEMON_ASSIGN_OR_RETURN(launch.port, Number("MASTER_PORT", port, 1, 65535 - taken));
  launch.port += taken ? 1 : 0;
  if (const char* const local = get("LOCAL_WORLD_SIZE"); local != nullptr) {
    MNEMON_ASSIGN_OR_RETURN(launch.local_size,
                            Number("LOCAL_WORLD_SIZE", local, 1, launch.size));
  }
  return launch;
}

}  // namespace mnemon
