// SPDX-License-Identifier: MIT
#include "server/gateway/api_json.h"

#include <chrono>
#include <cmath>
#include <utility>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "base/files/json.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {

using nlohmann::json;

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

json Value(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& r = *message.GetReflection();
  const bool list = index >= 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return list ? r.GetRepeatedInt32(message, &field, index)
                  : r.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return list ? r.GetRepeatedInt64(message, &field, index)
                  : r.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return list ? r.GetRepeatedDouble(message, &field, index)
                  : r.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return list ? r.GetRepeatedFloat(message, &field, index)
                  : r.GetFloat(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return list ? r.GetRepeatedBool(message, &field, index)
                  : r.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (list ? r.GetRepeatedEnum(message, &field, index)
                   : r.GetEnum(message, &field))
          ->name();
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = list ? r.GetRepeatedString(message, &field, index)
                                    : r.GetString(message, &field);
      return field.type() == FieldDescriptor::TYPE_BYTES ? absl::Base64Escape(text)
                                                         : text;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(list ? r.GetRepeatedMessage(message, &field, index)
                         : r.GetMessage(message, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      break;
  }
  return nullptr;  // no message of the API has such a field
}

// protobuf's faults begin with the path of the field, perhaps in parentheses.
std::string FieldOf(const std::string& fault) {
  const size_t colon = fault.find(':');
  if (colon == std::string::npos || colon == 0) return "";
  std::string field = fault.substr(0, colon);
  if (field.front() == '(' && field.back() == ')') {
    field = field.substr(1, field.size() - 2);
  }
  const bool path = field.find_first_of(" \"'\\") == std::string::npos;
  return path ? field : "";
}

struct CodeForm {
  absl::StatusCode code;
  int http;
  const char* type;
};

constexpr char kInvalid[] = "invalid_request_error";
constexpr char kServer[] = "server_error";

// The HTTP codes are those of google.rpc.Code.
constexpr CodeForm kForms[] = {
    {absl::StatusCode::kInvalidArgument, 400, kInvalid},
    {absl::StatusCode::kFailedPrecondition, 400, kInvalid},
    {absl::StatusCode::kOutOfRange, 400, kInvalid},
    {absl::StatusCode::kUnauthenticated, 401, "authentication_error"},
    {absl::StatusCode::kPermissionDenied, 403, "permission_error"},
    {absl::StatusCode::kNotFound, 404, "not_found_error"},
    {absl::StatusCode::kAlreadyExists, 409, "conflict_error"},
    {absl::StatusCode::kAborted, 409, "conflict_error"},
    {absl::StatusCode::kResourceExhausted, 429, "rate_limit_error"},
    {absl::StatusCode::kCancelled, 499, kInvalid},
    {absl::StatusCode::kUnimplemented, 501, kInvalid},
    {absl::StatusCode::kUnavailable, 503, kServer},
    {absl::StatusCode::kDeadlineExceeded, 504, kServer},
    {absl::StatusCode::kInternal, 500, kServer},
};

CodeForm FormOf(absl::StatusCode code) {
  for (const CodeForm& form : kForms) {
    if (form.code == code) return form;
  }
  return {code, 500, kServer};
}

int HttpCode(absl::StatusCode code, const std::string& reason) {
  if (reason == "METHOD_NOT_ALLOWED") return 405;
  if (reason == "BODY_TOO_LARGE") return 413;
  if (reason == "ENCODING_NOT_SUPPORTED") return 415;
  // The client must not try again: a field, not a method, is unimplemented.
  if (reason == "FIELD_UNIMPLEMENTED" || reason == "MODEL_KIND") return 400;
  return FormOf(code).http;
}

absl::Status NotAnObject() {
  return MakeError(absl::StatusCode::kInvalidArgument, "the body is not a JSON object",
                   {.reason = "INVALID_JSON"});
}

}  // namespace

absl::StatusOr<json> ParseBody(const std::string& body) {
  absl::StatusOr<json> parsed = ParseJson(body, "the body");
  if (parsed.ok()) return parsed;
  return MakeError(parsed.status().code(), std::string(parsed.status().message()),
                   {.reason = "INVALID_JSON"});
}

std::string JsonText(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json ToJson(const Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  // Times, durations and masks have their own forms.
  if (type.file()->package() == "google.protobuf") {
    std::string text;
    const auto status = google::protobuf::util::MessageToJsonString(message, &text);
    return status.ok() ? json::parse(text) : json();
  }
  const Reflection& reflection = *message.GetReflection();
  json out = json::object();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated()) {
      const int count = reflection.FieldSize(message, &field);
      if (count == 0) continue;
      json& list = out[field.name()] = json::array();
      for (int k = 0; k < count; ++k) list.push_back(Value(message, field, k));
    } else if (!field.has_presence() || reflection.HasField(message, &field)) {
      out[field.name()] = Value(message, field, -1);
    }
  }
  return out;
}

absl::Status FromJson(const json& object, Message& message) {
  if (!object.is_object()) return NotAnObject();
  const auto status =
      google::protobuf::util::JsonStringToMessage(object.dump(), &message);
  if (status.ok()) return absl::OkStatus();
  const std::string fault(status.message().data(), status.message().size());
  const std::string field = FieldOf(fault);
  return MakeError(absl::StatusCode::kInvalidArgument, fault.substr(0, 500),
                   {.reason = "INVALID_VALUE", .field = field.substr(0, 200)});
}

json ErrorJson(const absl::Status& status) {
  const std::string name = absl::StatusCodeToString(status.code());
  const ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
  json error = {{"message", std::string(status.message())},
                {"type", FormOf(status.code()).type},
                {"param", detail.field.empty() ? json() : json(detail.field)},
                {"code", detail.reason.empty() ? name : detail.reason},
                {"status", name}};
  if (detail.retry_after) error["retry_after_ms"] = detail.retry_after->count();
  if (!detail.metadata.empty()) error["metadata"] = detail.metadata;
  return {{"error", std::move(error)}};
}

HttpResponse ErrorResponse(const absl::Status& status,
                           std::vector<HttpHeader> headers) {
  const ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
  HttpResponse response{.code = HttpCode(status.code(), detail.reason),
                        .type = "application/json",
                        .body = JsonText(ErrorJson(status)) + "\n"};
  if (detail.retry_after) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*detail.retry_after);
    response.headers.push_back({"Retry-After", StrCat(seconds.count())});
    response.headers.push_back({"Retry-After-Ms", StrCat(detail.retry_after->count())});
  }
  for (HttpHeader& header : headers) response.headers.push_back(std::move(header));
  return response;
}

JsonFields::JsonFields(const json& object) : object_(object) {
  if (!object.is_object()) Fault(NotAnObject());
}

const json* JsonFields::Any(const std::string& name) {
  taken_.insert(name);
  if (!status_.ok()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

template <class T>
std::optional<T> JsonFields::As(const std::string& name,
                                bool (json::*fits)() const noexcept, const char* what) {
  const json* const value = Any(name);
  if (value == nullptr) return std::nullopt;
  if ((value->*fits)()) return value->get<T>();
  Fault(name, what);
  return std::nullopt;
}

std::optional<double> JsonFields::Number(const std::string& name) {
  const auto number = As<double>(name, &json::is_number, "must be a number");
  if (!number || std::isfinite(*number)) return number;
  Fault(name, "must be a number");
  return std::nullopt;
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
  return As<bool>(name, &json::is_boolean, "must be true or false");
}

std::optional<std::string> JsonFields::Text(const std::string& name) {
  return As<std::string>(name, &json::is_string, "must be a string");
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
