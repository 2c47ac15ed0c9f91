// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "client/client.h"
#include "client/commands/commands.h"
#include "client/terminal/describe_error.h"
#include "client/terminal/sampling_flags.h"

namespace mnemon::client {
namespace {

struct PredictFlags {
  ClientOptions client;
  PredictOptions predict;
  std::vector<int32_t> tokens;
  std::string mask = "config";
  std::string maps = "none";
};

// The most likely id of each row of [1, T, V].
std::string MostLikely(const FloatArray& logits) {
  const int64_t vocab = logits.shape.back();
  std::vector<int64_t> ids;
  for (auto row = logits.values.begin(); row != logits.values.end(); row += vocab) {
    ids.push_back(std::max_element(row, row + vocab) - row);
  }
  return StrJoin(ids, ",");
}

// [1, H, T, T] as a block of T lines per head.
void PrintMap(const FloatArray& map, size_t layer) {
  const int64_t time = map.shape.back();
  auto value = map.values.begin();
  for (int64_t head = 0; head < map.shape[1]; ++head) {
    std::printf("layer %zu head %lld\n", layer, static_cast<long long>(head));
    for (int64_t row = 0; row < time; ++row) {
      std::string line;
      for (int64_t i = 0; i < time; ++i) {
        absl::StrAppendFormat(&line, i == 0 ? "%.6f" : " %.6f", *value++);
      }
      std::printf("%s\n", line.c_str());
    }
  }
}

absl::Status Run(PredictFlags& flags) {
  flags.predict.sequences = {flags.tokens};
  flags.predict.mask = flags.mask == "none"     ? PredictMask::kNone
                       : flags.mask == "config" ? PredictMask::kConfig
                                                : PredictMask::kCausal;
  flags.predict.maps = flags.maps == "used"       ? PredictMaps::kUsed
                       : flags.maps == "notebook" ? PredictMaps::kNotebook
                                                  : PredictMaps::kNone;
  const auto result = Client::Connect(flags.client)->Predict(flags.predict);
  if (!result.ok()) return Described(result.status());
  std::printf("%s\n", MostLikely(result->logits).c_str());
  for (size_t layer = 0; layer < result->maps.size(); ++layer) {
    PrintMap(result->maps[layer], layer);
  }
  return absl::OkStatus();
}

}  // namespace

void AddPredictCommand(CommandLine& line) {
  auto flags = std::make_shared<PredictFlags>();
  Command command = line.AddCommand(
      "predict", "Runs an encoder over a sequence: the most likely id per position.",
      {"mnemon predict --tokens 3,1,4,1,5",
       "mnemon predict --tokens 3,1,4,1,5 --maps used   # and its attention"},
      [flags] { return Run(*flags); });
  AddServerFlag(command, flags->client);
  AddModelFlag(command, flags->predict.model);
  command.Add("--tokens", &flags->tokens, "Token ids of the sequence: 1,2,3")
      .WithCommas()
      .Required();
  command.Add("--mask", &flags->mask, "What positions see; config = as it was trained")
      .OneOf({"config", "none", "causal"});
  command
      .Add("--maps", &flags->maps,
           "Attention to print, a matrix per layer and head: the one used, or as the "
           "attention notebook shows it")
      .OneOf({"none", "used", "notebook"});
}

}  // namespace mnemon::client
