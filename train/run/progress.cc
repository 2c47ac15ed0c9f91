// SPDX-License-Identifier: MIT
#include "train/run/progress.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr size_t kBarWidth = 24;
constexpr std::chrono::milliseconds kPause(200);
// Speeds over shorter times fluctuate.
constexpr double kSteadySeconds = 1;

std::string Duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s < 3600) return absl::StrFormat("%d:%02d", s / 60, s % 60);
  return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

std::string Percent(double part) {
  return absl::StrFormat("%3d%%", static_cast<int>(100 * part));
}

std::string Bar(double part) {
  const auto filled = static_cast<size_t>(static_cast<double>(kBarWidth) * part);
  return "[" + std::string(filled, '#') + std::string(kBarWidth - filled, ' ') + "]";
}

std::string Number(double number) { return absl::StrFormat("%.4f", number); }

}  // namespace

Progress::Progress(const Clock& clock, int64_t done, int64_t planned)
    : Progress(clock, done, planned, TimeSpan{}) {}

Progress::Progress(const Clock& clock, int64_t done, int64_t planned,
                   const TimeSpan& span)
    : clock_(clock),
      planned_(planned),
      span_(span),
      done_(done),
      last_(clock.Now()),
      shown_(last_) {}

Progress::Progress(const Clock& clock, int64_t done, const TimeSpan& span)
    : Progress(clock, done, 0, span) {}

double Progress::Part() const {
  if (planned_ > 0) return static_cast<double>(done_) / static_cast<double>(planned_);
  const std::chrono::duration<double> passed = clock_.Now() - span_.begin;
  return std::min(1.0, passed / span_.length);
}

double Progress::SecondsLeft() const {
  if (planned_ > 0) return seconds_per_update_ * static_cast<double>(planned_ - done_);
  const std::chrono::duration<double> left = span_.begin + span_.length - clock_.Now();
  return std::max(0.0, left.count());
}

std::string Progress::At(int64_t step) const {
  if (planned_ > 0) return absl::StrFormat("update %d of %d", step, planned_);
  return absl::StrFormat("update %d, %d%% of the time", step,
                         static_cast<int>(100 * Part()));
}

std::string Progress::Step(int64_t step) const {
  if (planned_ > 0) return absl::StrFormat("step %d/%d", step, planned_);
  return absl::StrFormat("step %d", step);
}

void Progress::Advance(const Advanced& by) {
  const auto now = clock_.Now();
  seconds_ += std::chrono::duration<double>(now - last_).count();
  last_ = now;
  done_ += by.updates;
  updates_ += by.updates;
  tokens_ += by.tokens;
  seconds_per_update_ = seconds_ / static_cast<double>(updates_);
  if (by.loss) {
    loss_sum_ += *by.loss;
    loss_ = loss_sum_ / static_cast<double>(updates_);
  }
  if (seconds_ >= kSteadySeconds || speed_ == 0) speed_ = TokensPerSecond();
  if (line_.live() && now - shown_ >= kPause) ShowLine();
}

void Progress::Resume() { last_ = clock_.Now(); }

double Progress::TokensPerSecond() const {
  return seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0;
}

void Progress::Report(const MetricsRow& row, double validation) {
  const std::string time =
      planned_ > 0 ? "" : absl::StrFormat(" %d%%", static_cast<int>(100 * Part()));
  std::vector<LinePart> parts = {
      {StrCat(Step(row.step), time), 1},
      {"loss " + Number(row.loss), 2},
      {"validation " + (validation < 0 ? std::string("-") : Number(validation)), 0}};
  if (row.accuracy) parts.push_back({"accuracy " + Number(*row.accuracy), 3});
  parts.push_back({absl::StrFormat("lr %.3g", row.learning_rate), 5});
  parts.push_back({absl::StrFormat("%.0f tokens/s", TokensPerSecond()), 4});
  parts.push_back({absl::StrFormat("grad %.3g", row.gradient_norm), 6});
  parts.push_back({"eta " + Duration(SecondsLeft()), 7});
  // The live line of a terminal shows it; a validation also gets a permanent line.
  if (!line_.live() || row.validation) Say(FitLine(parts, line_.Columns()));
  if (updates_ > 0) speed_ = TokensPerSecond();
  loss_ = row.loss;
  if (validation >= 0) validation_ = validation;
  if (row.accuracy) accuracy_ = row.accuracy;
  updates_ = 0;
  tokens_ = 0;
  seconds_ = 0;
  loss_sum_ = 0;
  if (line_.live() && !line_.shown()) ShowLine();
}

void Progress::Leave() {
  if (line_.shown()) ShowLine();
  line_.Leave();
}

void Progress::ShowLine() {
  shown_ = clock_.Now();
  const double part = Part();
  std::vector<LinePart> parts = {{Bar(part), 7}, {Percent(part), 0}};
  if (loss_) {
    parts.push_back({Step(done_), 5});
    parts.push_back({"loss " + Number(*loss_), 1});
  }
  if (validation_) parts.push_back({"validation " + Number(*validation_), 3});
  if (accuracy_) parts.push_back({"accuracy " + Number(*accuracy_), 6});
  parts.push_back({absl::StrFormat("%.0f tokens/s", speed_), 4});
  parts.push_back({"eta " + Duration(SecondsLeft()), 2});
  line_.Show(FitLine(parts, line_.Columns()));
}

}  // namespace mnemon
