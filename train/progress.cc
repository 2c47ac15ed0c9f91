// SPDX-License-Identifier: MIT
#include "train/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"

namespace mnemon {
namespace {

constexpr int kBarWidth = 30;
constexpr std::chrono::milliseconds kBarPause(200);

std::string Duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s < 3600) return absl::StrFormat("%d:%02d", s / 60, s % 60);
  return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

Progress::Progress(const Clock& clock, int64_t done, int64_t planned)
    : Progress(clock, done, planned, TimeSpan{}) {}

Progress::Progress(const Clock& clock, int64_t done, int64_t planned,
                   const TimeSpan& span)
    : clock_(clock),
      terminal_(isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0),
      planned_(planned),
      span_(span),
      done_(done),
      last_(clock.Now()),
      bar_drawn_(last_) {}

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

void Progress::Advance(int64_t tokens, int64_t updates) {
  const auto now = clock_.Now();
  seconds_ += std::chrono::duration<double>(now - last_).count();
  last_ = now;
  done_ += updates;
  updates_ += updates;
  tokens_ += tokens;
  seconds_per_update_ = seconds_ / static_cast<double>(updates_);
  if (terminal_ && now - bar_drawn_ >= kBarPause) {
    bar_drawn_ = now;
    DrawBar();
  }
}

void Progress::Resume() { last_ = clock_.Now(); }

double Progress::TokensPerSecond() const {
  return seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0;
}

void Progress::Report(const MetricsRow& row, double validation) {
  std::string checked =
      validation < 0 ? std::string("-") : absl::StrFormat("%.4f", validation);
  if (row.accuracy) checked += absl::StrFormat("  accuracy %.4f", *row.accuracy);
  const std::string step =
      planned_ > 0
          ? absl::StrFormat("step %d/%d", row.step, planned_)
          : absl::StrFormat("step %d %d%%", row.step, static_cast<int>(100 * Part()));
  Say(absl::StrFormat(
      "%s  loss %.4f  validation %s  lr %.3g  %.0f tokens/s  grad %.3g  eta %s", step,
      row.loss, checked, row.learning_rate, TokensPerSecond(), row.gradient_norm,
      Duration(SecondsLeft())));
  updates_ = 0;
  tokens_ = 0;
  seconds_ = 0;
}

void Progress::Say(const std::string& text) {
  ClearBar();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void Progress::DrawBar() {
  const double part = Part();
  const auto filled = static_cast<int>(kBarWidth * part);
  std::fprintf(stderr, "\r[%s%s] %d%%  eta %s \033[K", std::string(filled, '#').c_str(),
               std::string(kBarWidth - filled, ' ').c_str(),
               static_cast<int>(100 * part), Duration(SecondsLeft()).c_str());
  bar_visible_ = true;
}

void Progress::ClearBar() {
  if (bar_visible_) std::fprintf(stderr, "\r\033[K");
  bar_visible_ = false;
}

}  // namespace mnemon
