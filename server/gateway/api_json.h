// SPDX-License-Identifier: MIT
// What the HTTP API reads and writes as JSON: bodies and their fields, errors, and
// messages in the JSON mapping of proto3, with the fields' own names and 64-bit
// integers as numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/http/http_exchange.h"

namespace mnemon {

// INVALID_ARGUMENT, INVALID_JSON.
absl::StatusOr<nlohmann::json> ParseBody(const std::string& body);

// On one line, with U+FFFD for what is not UTF-8.
std::string JsonText(const nlohmann::json& value);

// Leaves out optional fields, messages and lists that are not set.
nlohmann::json ToJson(const google::protobuf::Message& message);

// Adds the fields of an object to `message`. Integers may be numbers or strings.
// INVALID_ARGUMENT names a field that is unknown or has the wrong type.
absl::Status FromJson(const nlohmann::json& object, google::protobuf::Message& message);

// OpenAI's form: {"error": {"message", "type", "param", "code", "status",
// "retry_after_ms", "metadata"}}. `code` is the reason of the gRPC error, `status` the
// name of its code. The last two are present only if the error has them.
nlohmann::json ErrorJson(const absl::Status& status);

// The response with that object, `headers`, and Retry-After if a retry can help.
HttpResponse ErrorResponse(const absl::Status& status,
                           std::vector<HttpHeader> headers = {});

// The fields of an object, read one by one with their types. Errors name the field; one
// that nobody reads is an error. A field that is null counts as absent. After the first
// error, which is kept, all fields are absent.
class JsonFields {
 public:
  // `object` outlives it.
  explicit JsonFields(const nlohmann::json& object);

  std::optional<double> Number(const std::string& name);
  std::optional<int64_t> Integer(const std::string& name, int64_t least, int64_t most);
  std::optional<bool> Boolean(const std::string& name);
  std::optional<std::string> Text(const std::string& name);
  // A string, or a list of strings.
  std::vector<std::string> Texts(const std::string& name, size_t most);
  // A field of any type; null: absent.
  const nlohmann::json* Any(const std::string& name);

  // Accepts a field that has no effect here, whatever it holds.
  void Ignore(const std::string& name) { taken_.insert(name); }
  // Accepts a field that may only have the value that changes nothing; UNIMPLEMENTED
  // otherwise.
  void Refuse(const std::string& name, const nlohmann::json& harmless);

  void Fault(const std::string& name, const std::string& what);
  void Fault(const absl::Status& status);  // unless OK
  // The first error, or one for a field that was not read.
  absl::Status End();

 private:
  template <class T>
  std::optional<T> As(const std::string& name,
                      bool (nlohmann::json::*fits)() const noexcept, const char* what);

  const nlohmann::json& object_;
  std::set<std::string> taken_;
  absl::Status status_;
};

}  // namespace mnemon
