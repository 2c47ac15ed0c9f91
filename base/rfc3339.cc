// SPDX-License-Identifier: MIT
#include "base/rfc3339.h"

namespace mnemon {
namespace {

// Reads from the front of a text; after a mismatch everything fails.
class TimeText {
 public:
  explicit TimeText(std::string_view text) : left_(text) {}

  // `digits` decimal digits.
  int Number(size_t digits) {
    int value = 0;
    for (size_t i = 0; i < digits; ++i) {
      value = value * 10 + (NextIsDigit() ? left_.front() - '0' : 0);
      Take(NextIsDigit());
    }
    return value;
  }
  // Digits of a fraction of a second, as nanoseconds.
  int32_t Fraction() {
    int32_t nanos = 0;
    int32_t unit = 100'000'000;
    Take(NextIsDigit(), 0);
    for (; NextIsDigit(); unit /= 10) {
      nanos += unit * (left_.front() - '0');
      Take(unit > 0);
    }
    return nanos;
  }
  bool Next(std::string_view any) const {
    return !left_.empty() && any.find(left_.front()) != any.npos;
  }
  // One character out of `any`.
  char One(std::string_view any) {
    const char c = Next(any) ? left_.front() : '\0';
    Take(c != '\0');
    return c;
  }
  bool Ended() const { return good_ && left_.empty(); }

 private:
  bool NextIsDigit() const { return Next("0123456789"); }
  void Take(bool matches, size_t count = 1) {
    good_ = good_ && matches;
    left_.remove_prefix(good_ ? count : left_.size());
  }

  std::string_view left_;
  bool good_ = true;
};

}  // namespace

Instant InstantOf(std::chrono::system_clock::time_point time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return {.seconds = seconds.time_since_epoch().count(),
          .nanos = static_cast<int32_t>(
              std::chrono::duration_cast<std::chrono::nanoseconds>(time - seconds)
                  .count())};
}

std::optional<Instant> ParseRfc3339(std::string_view text) {
  using namespace std::chrono;
  TimeText left(text);
  const int year_number = left.Number(4);
  left.One("-");
  const int month_number = left.Number(2);
  left.One("-");
  const int day_number = left.Number(2);
  left.One("Tt");
  const int hour = left.Number(2);
  left.One(":");
  const int minute = left.Number(2);
  left.One(":");
  const int second = left.Number(2);
  int32_t nanos = 0;
  if (left.Next(".")) {
    left.One(".");
    nanos = left.Fraction();
  }
  int offset = 0;  // minutes
  const char zone = left.One("Zz+-");
  if (zone == '+' || zone == '-') {
    const int hours_east = left.Number(2);
    left.One(":");
    const int minutes_east = left.Number(2);
    if (hours_east > 23 || minutes_east > 59) return std::nullopt;
    offset = (zone == '-' ? -1 : 1) * (hours_east * 60 + minutes_east);
  }
  const year_month_day date{year(year_number), month(month_number), day(day_number)};
  if (!left.Ended() || !date.ok() || hour > 23 || minute > 59 || second > 59) {
    return std::nullopt;
  }
  const seconds time = sys_days(date).time_since_epoch() + hours(hour) +
                       minutes(minute - offset) + seconds(second);
  return Instant{.seconds = time.count(), .nanos = nanos};
}

}  // namespace mnemon
