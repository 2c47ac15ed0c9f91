// SPDX-License-Identifier: MIT
#include "server/gateway/message_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/escaping.h"
#include "base/error.h"

namespace mnemon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::json;

// Those with a form of their own: times, durations, masks.
bool IsWellKnown(const google::protobuf::Descriptor& type) {
  return type.file()->package() == "google.protobuf";
}

json WellKnown(const Message& message) {
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text);
  return status.ok() ? json::parse(text) : json();
}

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

}  // namespace

json ToJson(const Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  if (IsWellKnown(type)) return WellKnown(message);
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
  if (!object.is_object()) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     "the body is not a JSON object", {.reason = "INVALID_JSON"});
  }
  const auto status =
      google::protobuf::util::JsonStringToMessage(object.dump(), &message);
  if (status.ok()) return absl::OkStatus();
  const std::string fault(status.message().data(), status.message().size());
  const std::string field = FieldOf(fault);
  return MakeError(absl::StatusCode::kInvalidArgument, fault.substr(0, 500),
                   {.reason = "INVALID_VALUE", .field = field.substr(0, 200)});
}

}  // namespace mnemon
