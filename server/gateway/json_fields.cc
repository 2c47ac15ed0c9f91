// SPDX-License-Identifier: MIT
#include "server/gateway/json_fields.h"

#include <cmath>

#include "base/error.h"
#include "base/files/json.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {

using nlohmann::json;

absl::StatusOr<json> ParseBody(const std::string& body) {
  absl::StatusOr<json> parsed = ParseJson(body, "the body");
  if (parsed.ok()) return parsed;
  return MakeError(parsed.status().code(), std::string(parsed.status().message()),
                   {.reason = "INVALID_JSON"});
}

JsonFields::JsonFields(const json& object) : object_(object) {
  if (!object.is_object()) {
    Fault(MakeError(absl::StatusCode::kInvalidArgument, "the body is not a JSON object",
                    {.reason = "INVALID_JSON"}));
  }
}

const json* JsonFields::Any(const std::string& name) {
  taken_.insert(name);
  if (!status_.ok()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> JsonFields::Number(const std::string& name) {
  const json* const value = Any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    Fault(name, "must be a number");
    return std::nullopt;
  }
  return value->get<double>();
}

std::optional<int64_t> JsonFields::Integer(const std::string& name, int64_t least,
                                           int64_t most) {
  const json* const value = Any(name);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_unsigned()
                        ? value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                        : value->is_number_integer();
  if (!fits || value->get<int64_t>() < least || value->get<int64_t>() > most) {
    Fault(name, StrCat("must be an integer from ", least, " to ", most));
    return std::nullopt;
  }
  return value->get<int64_t>();
}

std::optional<bool> JsonFields::Boolean(const std::string& name) {
  const json* const value = Any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    Fault(name, "must be true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::string> JsonFields::Text(const std::string& name) {
  const json* const value = Any(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    Fault(name, "must be a string");
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::vector<std::string> JsonFields::Texts(const std::string& name, size_t most) {
  const json* const value = Any(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> out;
  if (value->is_array() && value->size() <= most) {
    for (const json& one : *value) {
      if (one.is_string()) out.push_back(one.get<std::string>());
    }
    if (out.size() == value->size()) return out;
  }
  Fault(name, StrCat("must be a string, or a list of at most ", most, " strings"));
  return {};
}

void JsonFields::Refuse(const std::string& name, const json& harmless) {
  const json* const value = Any(name);
  if (value == nullptr || *value == harmless) return;
  Fault(MakeError(absl::StatusCode::kUnimplemented,
                  StrCat(name, " is not available here; leave it unset"),
                  {.reason = "FIELD_UNIMPLEMENTED", .field = name}));
}

void JsonFields::Fault(const std::string& name, const std::string& what) {
  Fault(InvalidField(name, StrCat(name, " ", what)));
}

void JsonFields::Fault(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

absl::Status JsonFields::End() {
  if (!status_.ok()) return status_;
  for (const auto& [name, value] : object_.items()) {
    if (taken_.contains(name)) continue;
    const std::string field = name.substr(0, 100);
    return InvalidField(field, StrCat("there is no field ", Quoted(name)));
  }
  return absl::OkStatus();
}

}  // namespace mnemon
