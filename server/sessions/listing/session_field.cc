// SPDX-License-Identifier: MIT
#include "server/sessions/listing/session_field.h"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <vector>

#include "base/process/nearest_name.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using Type = SessionField::Type;
using Facts = SessionFacts;

// In the order of the enumerations of request.h.
constexpr std::string_view kStates[] = {"IDLE", "QUEUED", "RUNNING", "PAUSED",
                                        "DETACHED"};
constexpr std::string_view kDurabilities[] = {"NONE", "TURN", "ALWAYS"};
constexpr std::string_view kTiers[] = {"DEVICE", "HOST", "DISK", "SHARED"};
constexpr std::string_view kTruths[] = {"false", "true"};

constexpr std::string_view kSessions = "sessions/";
constexpr std::string_view kModels = "models/";

template <auto Member>
FieldValue MemberOf(const Facts& facts) {
  const auto& value = facts.*Member;
  if constexpr (std::is_convertible_v<decltype(value), std::string>) {
    return value;
  } else {
    return static_cast<int64_t>(value);
  }
}

template <auto Member>
FieldValue TimeOf(const Facts& facts) {
  return InstantOf(facts.*Member);
}

// Whole milliseconds: it is computed from two clocks, read one after the other, so that
// what is below differs from one reading to the next.
FieldValue ExpireTimeOf(const Facts& facts) {
  if (!facts.expire_time) return Absent();
  return InstantOf(std::chrono::floor<std::chrono::milliseconds>(*facts.expire_time));
}

constexpr SessionField kFields[] = {
    {"name", Type::kText, &MemberOf<&Facts::id>, kSessions},
    {"model", Type::kText, &MemberOf<&Facts::model>, kModels},
    {"state", Type::kEnumeration, &MemberOf<&Facts::state>, {}, kStates},
    {"token_count", Type::kInteger, &MemberOf<&Facts::position>},
    {"state_size_bytes", Type::kInteger, &MemberOf<&Facts::state_size_bytes>},
    {"create_time", Type::kTime, &TimeOf<&Facts::create_time>},
    {"last_use_time", Type::kTime, &TimeOf<&Facts::last_use_time>},
    {"expire_time", Type::kTime, &ExpireTimeOf},
    {"parent", Type::kText, &MemberOf<&Facts::parent>, kSessions},
    {"rebuilt", Type::kTruth, &MemberOf<&Facts::rebuilt>, {}, kTruths},
    {"paused", Type::kTruth, &MemberOf<&Facts::paused>, {}, kTruths},
    {"durability",
     Type::kEnumeration,
     &MemberOf<&Facts::durability>,
     {},
     kDurabilities},
    {"tier", Type::kEnumeration, &MemberOf<&Facts::tier>, {}, kTiers},
    {"model_id", Type::kText, &MemberOf<&Facts::model_id>},
    {"numerics_id", Type::kText, &MemberOf<&Facts::numerics_id>},
};

}  // namespace

std::span<const SessionField> SessionFields() { return kFields; }

const SessionField* FindSessionField(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kFields), std::end(kFields),
                   [&](const SessionField& field) { return field.name == name; });
  return found == std::end(kFields) ? nullptr : found;
}

std::string UnknownSessionField(std::string_view name) {
  std::vector<std::string> names;
  for (const SessionField& field : kFields) names.emplace_back(field.name);
  return StrCat("there is no field ", Quoted(name), ": the fields are ",
                StrJoin(names, ", "), DidYouMean(name, names));
}

}  // namespace mnemon
