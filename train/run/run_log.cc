// SPDX-License-Identifier: MIT
#include "train/run/run_log.h"

#include <utility>

#include "base/files/file.h"
#include "base/files/json.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

std::optional<int64_t> MetricsStep(std::string_view line) {
  const std::optional<MetricsRow> row = ParseMetricsRow(line);
  if (!row) return std::nullopt;
  return row->step;
}

std::optional<int64_t> SampleStep(std::string_view line) {
  const std::optional<SampleRow> sample = ParseSampleRow(line);
  if (!sample) return std::nullopt;
  return sample->step;
}

absl::Status MakeCurrent(const std::string& metrics_path) {
  absl::StatusOr<std::string> content = ReadFile(metrics_path, INT64_MAX);
  if (absl::IsNotFound(content.status())) return absl::OkStatus();
  MNEMON_RETURN_IF_ERROR(content.status());
  const std::string current = CurrentMetrics(*content);
  if (current == *content) return absl::OkStatus();
  return WriteFileDurably(metrics_path, current);
}

}  // namespace

std::optional<SampleRow> ParseSampleRow(std::string_view line) {
  const absl::StatusOr<nlohmann::json> json = ParseJson(line, "line");
  if (!json.ok() || !json->is_object()) return std::nullopt;
  const auto step = json->find("step"), text = json->find("text");
  if (step == json->end() || !step->is_number_unsigned() || text == json->end() ||
      !text->is_string()) {
    return std::nullopt;
  }
  const auto number = step->get<uint64_t>();
  if (number > INT64_MAX) return std::nullopt;
  return SampleRow{.step = static_cast<int64_t>(number),
                   .text = text->get<std::string>()};
}

absl::StatusOr<RunLog> RunLog::Open(const std::string& directory, int64_t metrics_bytes,
                                    int64_t step) {
  const auto path = [&](const char* name) { return StrCat(directory, "/", name); };
  MNEMON_RETURN_IF_ERROR(MakeCurrent(path(kMetricsName)));
  MNEMON_ASSIGN_OR_RETURN(RowFile metrics,
                          RowFile::OpenUpTo(path(kMetricsName), kMetricsHeader,
                                            metrics_bytes, step, MetricsStep));
  MNEMON_ASSIGN_OR_RETURN(
      RowFile samples, RowFile::OpenUpTo(path(kSamplesName), "", 0, step, SampleStep));
  return RunLog(std::move(metrics), std::move(samples));
}

absl::Status RunLog::Append(const MetricsRow& metrics) {
  return metrics_.Append(FormatMetricsRow(metrics));
}

absl::Status RunLog::Append(const SampleRow& sample) {
  const nlohmann::ordered_json json = {{"step", sample.step}, {"text", sample.text}};
  return samples_.Append(
      json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

absl::Status RunLog::Sync() {
  MNEMON_RETURN_IF_ERROR(metrics_.Sync());
  return samples_.Sync();
}

}  // namespace mnemon
