// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/kernels.h"
#include "model/decoder/decoder.h"
#include "model/sequence/load.h"
#include "model/state/state.h"
#include "nlohmann/json.hpp"
#include "train/commands/commands.h"
#include "train/commands/compute_flags.h"

namespace mnemon {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell; all but the first to the right.
void PrintTable(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const Row& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += " " + (i == 0 ? row[i] + padding : " " + padding + row[i]);
    }
    std::printf("%s\n", line.c_str());
  }
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return StrCat("[", StrJoin(shape, ", "), "]");
}

void PrintConfig(const std::string& config_json) {
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(config_json);
  std::printf("\nconfig\n");
  size_t width = 0;
  for (const auto& [key, value] : json.items()) width = std::max(width, key.size());
  for (const auto& [key, value] : json.items()) {
    std::printf("  %-*s  %s\n", static_cast<int>(width), key.c_str(),
                (value.is_string() ? value.get<std::string>() : value.dump()).c_str());
  }
}

void PrintParameters(const ServedModel& served) {
  std::printf("\nparameters\n");
  std::vector<Row> rows;
  int64_t bytes = 0;
  for (const TensorInfo& tensor : served.tensors) {
    bytes += tensor.end - tensor.begin;
    Row row = {tensor.name, ShapeText(tensor.shape), StrCat(tensor.elements())};
    if (tensor.dtype == DType::kI8) row.emplace_back("int8");
    if (Bits(tensor.dtype) == 16) row.emplace_back(Name(tensor.dtype));
    rows.push_back(std::move(row));
  }
  rows.push_back({"total", "", StrCat(served.parameters)});
  rows.push_back({"bytes", "", StrCat(bytes)});
  PrintTable(rows);
}

void PrintState(const StateSpec& spec) {
  std::printf("\nstate of a session\n");
  std::vector<Row> rows;
  for (const StateEntry& entry : spec.entries) {
    const std::string growth(Name(entry.growth));
    rows.push_back({entry.name, ShapeText(entry.shape),
                    entry.growth == Growth::kFixed
                        ? growth
                        : StrCat(growth, " of ", entry.capacity, " rows")});
  }
  PrintTable(rows);
  std::printf("\nbytes of a session\n");
  rows.clear();
  const int64_t limit = spec.max_positions();
  for (const int64_t tokens : {int64_t{1}, int64_t{1000}}) {
    if (tokens > limit) continue;
    rows.push_back({StrCat("after ", tokens, tokens == 1 ? " token" : " tokens"),
                    StrCat(spec.bytes_at(tokens))});
  }
  rows.push_back({limit == StateSpec::kUnlimited
                      ? "at most, tokens unlimited"
                      : StrCat("at the limit, ", limit, " tokens"),
                  StrCat(spec.bytes_at(limit))});
  PrintTable(rows);
}

absl::Status RunInspect(const std::string& checkpoint, const Compute& compute) {
  MNEMON_ASSIGN_OR_RETURN(const ServedModel loaded,
                          LoadStepForm(checkpoint, compute.device, compute.decoder));
  std::string tokenizer = "none: only token ids work";
  if (!loaded.no_tokenizer.ok()) {
    tokenizer += StrCat("; ", std::string(loaded.no_tokenizer.message()));
  }
  if (loaded.tokenizer != nullptr) {
    const auto json = nlohmann::json::parse(loaded.tokenizer->ToJson());
    tokenizer =
        StrCat(json["model"].value("type", "BPE"), ", ", loaded.tokenizer->size(),
               " tokens; ", loaded.tokenizer->Describe());
    const UnknownCharacters unknown = loaded.tokenizer->unknown_characters();
    if (unknown != UnknownCharacters::kAsModel) {
      tokenizer += StrCat("; unknown characters: ", Name(unknown));
    }
  }
  const bool int8 = loaded.format == WeightFormat::kInt8;
  const std::string& numerics = loaded.decoder != nullptr
                                    ? loaded.decoder->numerics_id()
                                    : loaded.predictor->numerics_id();
  std::printf("model_id     %s\nnumerics_id  %s\nprecision    %s\ntokenizer    %s\n",
              loaded.model_id.c_str(), numerics.c_str(),
              int8 ? "int8; the model_id is that of the fp32 checkpoint it was made of"
                   : NameOf(loaded.format),
              tokenizer.c_str());
  PrintConfig(loaded.config_json);
  PrintParameters(loaded);
  if (loaded.decoder != nullptr) {
    PrintState(loaded.decoder->spec());
  } else {
    std::printf("\nstate of a session\n  none: an encoder takes whole sequences\n");
  }
  return absl::OkStatus();
}

}  // namespace

void AddInspectCommand(CommandLine& line) {
  auto checkpoint = std::make_shared<std::string>();
  Command command = line.AddCommand(
      "inspect", "Shows what a checkpoint holds and what a session of it costs.",
      {"mnemon-train inspect run/best"}, [checkpoint] {
        return RunComputing({}, [&](const Compute& compute) {
          return RunInspect(*checkpoint, compute);
        });
      });
  command.Add("checkpoint", checkpoint.get(), "Checkpoint directory").Required();
}

}  // namespace mnemon
