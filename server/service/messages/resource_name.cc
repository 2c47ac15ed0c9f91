// SPDX-License-Identifier: MIT
#include "server/service/messages/resource_name.h"

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

}  // namespace mnemon
