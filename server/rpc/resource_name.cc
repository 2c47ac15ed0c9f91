// SPDX-License-Identifier: MIT
#include "server/rpc/resource_name.h"

#include <algorithm>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr std::string_view kSessions = "sessions/";
constexpr std::string_view kModels = "models/";
constexpr size_t kMaxResourceId = 63;

bool IsAlphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool IsId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxResourceId && IsAlphanumeric(id.front()) &&
         std::all_of(id.begin(), id.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '-'; });
}

absl::StatusOr<std::string> Parse(std::string_view resource, std::string_view prefix,
                                  std::string_view field) {
  if (resource.substr(0, prefix.size()) == prefix &&
      IsId(resource.substr(prefix.size()))) {
    return std::string(resource.substr(prefix.size()));
  }
  return InvalidField(
      std::string(field),
      StrCat(field, " must be ", prefix,
             "ID, ID of 1 to 63 characters of a-z, 0-9 and ",
             "'-' that starts with a letter or digit, not ", Quoted(resource)));
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
