// SPDX-License-Identifier: MIT
#include "client/commands/session_flags.h"

#include "base/quote.h"
#include "base/rfc3339.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "client/terminal/sampling_fields.h"

namespace mnemon::client {
namespace {

// Up to the year 2255: a SystemTime cannot hold much more.
constexpr int64_t kMostUnixSeconds = 9'000'000'000;

absl::StatusOr<SystemTime> TakeTime(const std::string& text) {
  const std::optional<Instant> instant = ParseRfc3339(text);
  if (!instant || instant->seconds < 0 || instant->seconds > kMostUnixSeconds) {
    return UsageError(StrCat("--expire-time: ", Quoted(text),
                             " is not a time of the years 1970 to 2254 in RFC 3339, "
                             "for example 2030-01-31T08:00:00Z"));
  }
  return SystemTime(std::chrono::duration_cast<SystemTime::duration>(
      std::chrono::seconds(instant->seconds) +
      std::chrono::nanoseconds(instant->nanos)));
}

Durability TakeDurability(const std::string& name) {
  if (name == "none") return Durability::kNone;
  if (name == "turn") return Durability::kTurn;
  if (name == "always") return Durability::kAlways;
  return Durability::kServerDefault;
}

bool AnyGiven(const SamplingOptions& sampling) {
  bool any = !sampling.logit_bias.empty();
  VisitSampling(sampling, [&](const char*, const auto& field) {
    any = any || field.has_value();
  });
  return any;
}

}  // namespace

Flag AddChoiceFlags(Command command, ChoiceFlags& flags, const std::string& otherwise) {
  Flag expire = command.Add("--expire-time", &flags.expire_time,
                            "When the server deletes the session, used or not: "
                            "2030-01-31T08:00:00Z");
  expire.Default("no such time");
  command
      .Add("--durability", &flags.durability,
           "What survives a crash: nothing, turns that ended, or all that was "
           "acknowledged; \"default\" is the server's")
      .OneOf({"default", "none", "turn", "always"})
      .Default(otherwise);
  AddSamplingFlags(command, flags.sampling, flags.sampling_texts);
  return expire;
}

void AddInheritedChoiceFlags(Command command, ChoiceFlags& flags,
                             const std::string& origin) {
  Flag ttl = command.Add("--ttl", &flags.ttl,
                         "Seconds without use after which the server deletes the "
                         "session");
  ttl.Between(1, INT32_MAX, "seconds").Default(origin);
  ttl.Excludes(AddChoiceFlags(command, flags, origin));
}

absl::StatusOr<Choices> TakeChoices(const ChoiceFlags& flags) {
  Choices choices;
  if (!flags.expire_time.empty()) {
    MNEMON_ASSIGN_OR_RETURN(choices.expire_time, TakeTime(flags.expire_time));
  }
  if (!flags.durability.empty()) choices.durability = TakeDurability(flags.durability);
  SamplingOptions sampling = flags.sampling;
  MNEMON_RETURN_IF_ERROR(TakeFlags(flags.sampling_texts, sampling));
  if (AnyGiven(sampling)) choices.sampling = std::move(sampling);
  return choices;
}

void AddJsonFlag(Command command, bool& json) {
  command.Add("--json", &json, "Print JSON");
}

void AddEtagFlag(Command command, std::string& etag) {
  command.Add("--etag", &etag, "Only if the session has this etag, as get printed it")
      .Default("whatever it has");
}

void AddRequestIdFlag(Command command, std::string& request_id) {
  command
      .Add("--request-id", &request_id,
           "A UUID: the same command again finds what the first one made")
      .Default("none");
}

}  // namespace mnemon::client
