// SPDX-License-Identifier: MIT
#include "server/service/messages/names.h"

#include <algorithm>

#include "base/error.h"
#include "base/quote.h"
#include "base/resource_id.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr std::string_view kSessions = "sessions/";
constexpr std::string_view kModels = "models/";

absl::StatusOr<std::string> Parse(std::string_view resource, std::string_view prefix,
                                  std::string_view field) {
  if (resource.substr(0, prefix.size()) == prefix &&
      IsResourceId(resource.substr(prefix.size()))) {
    return std::string(resource.substr(prefix.size()));
  }
  return InvalidField(std::string(field),
                      StrCat(field, " must be ", prefix, "ID, ID of ", kResourceIdRule,
                             ", not ", Quoted(resource)));
}

// The path of the message of `scope` that has the field `name`; empty: none has.
std::string_view MessageWith(std::string_view name, const RequestScope& scope) {
  for (const char* const one :
       {"temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty",
        "frequency_penalty", "presence_penalty", "penalty_window_tokens",
        "logit_bias"}) {
    if (name == one) return scope.sampling;
  }
  for (const char* const one : {"ttl", "expire_time", "durability"}) {
    if (name == one) return scope.settings;
  }
  return {};
}

}  // namespace

std::string SessionResource(std::string_view id) { return StrCat(kSessions, id); }
std::string ModelResource(std::string_view name) { return StrCat(kModels, name); }

absl::StatusOr<std::string> ParseSessionResource(std::string_view resource,
                                                 std::string_view field) {
  return Parse(resource, kSessions, field);
}

absl::StatusOr<std::string> ParseModelResource(std::string_view resource,
                                               std::string_view field) {
  return Parse(resource, kModels, field);
}

absl::StatusOr<std::string> ParseOptionalSession(std::string_view resource,
                                                 std::string_view field) {
  if (resource.empty()) return std::string();
  return Parse(resource, kSessions, field);
}

absl::StatusOr<std::string> ParseOptionalModel(std::string_view resource,
                                               std::string_view field) {
  if (resource.empty()) return std::string();
  return Parse(resource, kModels, field);
}

std::string RequestPath(const std::string& field, const RequestScope& scope) {
  const size_t name_size = std::min(field.find('['), field.size());
  const std::string_view name = std::string_view(field).substr(0, name_size);
  for (const FieldPath& path : scope.paths) {
    if (path.engine == name) return StrCat(path.request, field.substr(name_size));
  }
  const std::string_view message = MessageWith(name, scope);
  return message.empty() ? field : StrCat(message, ".", field);
}

absl::Status FieldNotAvailable(std::string_view field) {
  return MakeError(absl::StatusCode::kUnimplemented,
                   StrCat(field, " is not available in this version; leave it unset"),
                   {.reason = "FIELD_UNIMPLEMENTED", .field = std::string(field)});
}

absl::Status NoSuchValue(std::string_view field, int value) {
  return InvalidField(std::string(field), StrCat(field, " has no value ", value));
}

}  // namespace mnemon
