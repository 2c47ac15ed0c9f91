// SPDX-License-Identifier: MIT
#include "client/terminal/session_text.h"

#include <array>
#include <ctime>

#include "base/quote.h"
#include "base/strings.h"
#include "client/terminal/sampling_fields.h"
#include "client/terminal/table.h"

namespace mnemon::client {
namespace {

std::string TimeOrNone(const std::optional<SystemTime>& time) {
  return time ? UtcText(*time) : "-";
}

std::string OrNone(const std::string& text) { return text.empty() ? "-" : text; }

const char* YesOrNo(bool value) { return value ? "yes" : "no"; }

std::string SamplingText(const SamplingOptions& sampling) {
  std::vector<std::string> parts;
  VisitSampling(sampling, [&](const char* name, const auto& field) {
    if (field) parts.push_back(StrCat(name, " ", *field));
  });
  for (const TokenBias& one : sampling.logit_bias) {
    parts.push_back(StrCat("logit_bias ", one.token, "=", one.bias));
  }
  return OrNone(StrJoin(parts, ", "));
}

std::string CheckpointText(const SessionCheckpoint& checkpoint) {
  return StrCat(checkpoint.id, ": ", checkpoint.position, " tokens, ",
                checkpoint.size_bytes, " bytes, ", TimeOrNone(checkpoint.create_time));
}

}  // namespace

std::string UtcText(SystemTime time) {
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%FT%TZ", &parts);
  return text.data();
}

std::string SessionTable(const std::vector<Session>& sessions) {
  std::vector<TableRow> rows = {
      {"NAME", "MODEL", "STATE", "TOKENS", "BYTES", "TIER", "LAST USE", "EXPIRES"}};
  for (const Session& session : sessions) {
    rows.push_back({session.id, OrNone(session.model), OrNone(session.state),
                    StrCat(session.position), StrCat(session.state_size_bytes),
                    OrNone(session.tier), TimeOrNone(session.last_use_time),
                    TimeOrNone(session.expire_time)});
  }
  return Table(rows);
}

std::string SessionFacts(const Session& session) {
  std::vector<TableRow> rows = {{"name", session.id},
                                {"model", OrNone(session.model)},
                                {"state", OrNone(session.state)},
                                {"paused", YesOrNo(session.paused)},
                                {"tokens", StrCat(session.position)},
                                {"state bytes", StrCat(session.state_size_bytes)},
                                {"tier", OrNone(session.tier)},
                                {"durability", OrNone(session.durability)},
                                {"sampling", SamplingText(session.sampling)},
                                {"created", TimeOrNone(session.create_time)},
                                {"last use", TimeOrNone(session.last_use_time)},
                                {"expires", TimeOrNone(session.expire_time)},
                                {"parent", OrNone(session.parent)},
                                {"rebuilt", YesOrNo(session.rebuilt)},
                                {"model id", OrNone(session.model_id)},
                                {"numerics id", OrNone(session.numerics_id)},
                                {"etag", OrNone(session.etag)}};
  for (const SessionCheckpoint& one : session.checkpoints) {
    rows.push_back({"checkpoint", CheckpointText(one)});
  }
  return Table(rows);
}

std::string VerificationFacts(const Verification& verification) {
  std::vector<TableRow> rows = {
      {"stored form", verification.stored_form_valid ? "valid" : "damaged"}};
  if (verification.replay_equal) {
    rows.push_back({"replay", *verification.replay_equal ? "equal" : "differs"});
  }
  rows.push_back({"tokens", StrCat(verification.position)});
  rows.push_back({"bytes compared", StrCat(verification.state_size_bytes)});
  rows.push_back({"first difference", OrNone(verification.first_difference)});
  return Table(rows);
}

std::string DescribeDifference(const Verification& verification, bool replay) {
  std::vector<std::string> parts;
  if (!verification.stored_form_valid) parts.push_back("the stored form is damaged");
  if (verification.replay_equal == false) {
    parts.push_back("the replayed state differs from the stored one");
  }
  if (replay && !verification.replay_equal) {
    parts.push_back("the server did not compare the replayed state");
  }
  if (!verification.first_difference.empty()) {
    parts.push_back(
        StrCat("the first difference is in ", Quoted(verification.first_difference)));
  }
  return StrJoin(parts, "; ");
}

}  // namespace mnemon::client
