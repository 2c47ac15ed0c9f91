// SPDX-License-Identifier: MIT
#include "train/run_log.h"

#include <charconv>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

std::optional<int64_t> SpeedStep(std::string_view row) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), step);
  if (error != std::errc() || end == row.data() + row.size() || *end != ',') {
    return std::nullopt;
  }
  return step;
}

std::optional<int64_t> SampleStep(std::string_view line) {
  const std::optional<SampleRow> sample = ParseSampleRow(line);
  if (!sample) return std::nullopt;
  return sample->step;
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
  MNEMON_ASSIGN_OR_RETURN(
      RowFile metrics,
      RowFile::Open(path(kMetricsName), kMetricsHeader, metrics_bytes));
  MNEMON_ASSIGN_OR_RETURN(
      RowFile speed,
      RowFile::OpenUpTo(path(kSpeedName), kSpeedHeader, step, SpeedStep));
  MNEMON_ASSIGN_OR_RETURN(RowFile samples,
                          RowFile::OpenUpTo(path(kSamplesName), "", step, SampleStep));
  return RunLog(std::move(metrics), std::move(speed), std::move(samples));
}

absl::Status RunLog::Append(const MetricsRow& metrics, const SpeedRow& speed) {
  MNEMON_RETURN_IF_ERROR(metrics_.Append(FormatMetricsRow(metrics)));
  return speed_.Append(absl::StrFormat("%d,%.3f,%.1f", speed.step, speed.seconds,
                                       speed.tokens_per_second));
}

absl::Status RunLog::Append(const SampleRow& sample) {
  const nlohmann::ordered_json json = {{"step", sample.step}, {"text", sample.text}};
  return samples_.Append(
      json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

absl::Status RunLog::Sync() {
  MNEMON_RETURN_IF_ERROR(metrics_.Sync());
  MNEMON_RETURN_IF_ERROR(speed_.Sync());
  return samples_.Sync();
}

}  // namespace mnemon
