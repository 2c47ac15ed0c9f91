// SPDX-License-Identifier: MIT
#include "train/progress.h"

#include <unistd.h>

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
    : clock_(clock),
      terminal_(isatty(STDOUT_FILENO) != 0 && isatty(STDERR_FILENO) != 0),
      planned_(planned),
      done_(done),
      last_(clock.Now()),
      bar_drawn_(last_) {}

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

void Progress::Report(const MetricsRow& row, double validation) {
  std::string checked =
      validation < 0 ? std::string("-") : absl::StrFormat("%.4f", validation);
  if (row.accuracy) checked += absl::StrFormat("  accuracy %.4f", *row.accuracy);
  const double speed = seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0;
  const double left = seconds_per_update_ * static_cast<double>(planned_ - done_);
  Say(absl::StrFormat(
      "step %d/%d  loss %.4f  validation %s  lr %.3g  %.0f tokens/s  grad %.3g  eta %s",
      row.step, planned_, row.loss, checked, row.learning_rate, speed,
      row.gradient_norm, Duration(left)));
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
  const auto filled = static_cast<int>(kBarWidth * done_ / planned_);
  const double left = seconds_per_update_ * static_cast<double>(planned_ - done_);
  std::fprintf(stderr, "\r[%s%s] %d%%  eta %s \033[K", std::string(filled, '#').c_str(),
               std::string(kBarWidth - filled, ' ').c_str(),
               static_cast<int>(100 * done_ / planned_), Duration(left).c_str());
  bar_visible_ = true;
}

void Progress::ClearBar() {
  if (bar_visible_) std::fprintf(stderr, "\r\033[K");
  bar_visible_ = false;
}

}  // namespace mnemon
