// SPDX-License-Identifier: MIT
#include "client/load/goodput.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon::client {
namespace {

bool Within(std::optional<double> time, std::optional<double> limit) {
  return !time || !limit || *time <= *limit;
}

}  // namespace

absl::StatusOr<double> ParseSeconds(const std::string& text) {
  constexpr double kMost = 86400;
  const size_t number = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string unit = text.substr(number);
  double value = 0;
  const bool read = absl::SimpleAtod(text.substr(0, number), &value);
  const double scale = unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "us" ? 1e-6 : 0;
  if (!read || !(value * scale > 0 && value * scale <= kMost)) {
    return absl::InvalidArgumentError(
        StrCat(Quoted(text), " is not a time above 0, for example 100ms, 2s or 500us"));
  }
  return value * scale;
}

absl::StatusOr<GoodputLimits> ParseGoodputLimits(const std::string& text) {
  GoodputLimits limits;
  const std::pair<const char*, std::optional<double>*> places[] = {
      {"ttft", &limits.ttft},
      {"itl", &limits.itl},
      {"tpot", &limits.tpot},
      {"e2e", &limits.e2e}};
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const size_t equals = std::min(part.find('='), part.size());
    const auto* place =
        std::find_if(std::begin(places), std::end(places), [&](const auto& candidate) {
          return part.substr(0, equals) == candidate.first;
        });
    if (place == std::end(places) || equals == part.size() || *place->second) {
      return absl::InvalidArgumentError(StrCat(
          Quoted(part), " is not NAME=TIME with a name of ttft, itl, tpot and e2e ",
          "that comes once"));
    }
    MNEMON_ASSIGN_OR_RETURN(*place->second, ParseSeconds(part.substr(equals + 1)));
    at = end + 1;
  }
  return limits;
}

bool Meets(const CallTimes& times, const GoodputLimits& limits) {
  return (times.ttft() || !limits.ttft) && Within(times.ttft(), limits.ttft) &&
         Within(times.itl(), limits.itl) && Within(times.tpot(), limits.tpot) &&
         Within(times.e2e(), limits.e2e);
}

}  // namespace mnemon::client
