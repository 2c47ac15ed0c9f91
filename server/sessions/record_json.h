// SPDX-License-Identifier: MIT
// Members of a record as a JSON object. One list of them serves for writing and for
// reading: a generic lambda that calls io(key, member) for each, with the list of the
// member's own members as a third argument if it is an object or a list of objects.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/strings.h"
#include "server/requests/request.h"

namespace mnemon {

// Leaves out absent optionals, empty texts and lists, and false.
class RecordWriter {
 public:
  explicit RecordWriter(nlohmann::json& object) : object_(object) {}

  template <class T, class... Members>
  void operator()(const char* key, const T& value, const Members&... members) {
    using std::chrono::milliseconds;
    if constexpr (requires { value.has_value(); }) {
      if (value) (*this)(key, *value, members...);
    } else if constexpr (requires { value.time_since_epoch(); }) {
      (*this)(key, std::chrono::duration_cast<milliseconds>(value.time_since_epoch()));
    } else if constexpr (requires { value.count(); }) {
      object_[key] = value.count();
    } else if constexpr (requires { value.empty(); }) {
      if constexpr (sizeof...(members) > 0) {
        for (const auto& item : value) {
          Write(object_[key].emplace_back(), item, members...);
        }
      } else {
        if (!value.empty()) object_[key] = value;
      }
    } else if constexpr (sizeof...(members) > 0) {
      Write(object_[key], value, members...);
    } else {
      if (value || !std::is_same_v<T, bool>) object_[key] = value;
    }
  }
  // A value of an enumeration by its name.
  template <class T>
  void Name(const char* key, const T& value, const auto& names) {
    object_[key] = names[static_cast<size_t>(value)];
  }

 private:
  static void Write(nlohmann::json& object, const auto& value, const auto& members) {
    if (object.is_null()) object = nlohmann::json::object();
    RecordWriter inner(object);
    members(inner, value);
  }

  nlohmann::json& object_;
};

// Members that are absent stay as they are. The first fault is kept.
class RecordReader {
 public:
  struct Faults {
    absl::Status (*damaged)(std::string_view fault);  // makes the error
    // After the key of what is not an integer that the member holds, or a list of
    // texts.
    std::string_view integer, texts;
  };

  // The arguments outlive it.
  RecordReader(const nlohmann::json& object, const Faults& faults, absl::Status& status)
      : object_(object), faults_(faults), status_(status) {
    if (!object.is_object()) Damaged("not a JSON object");
  }

  // Null: it is absent, or there was a fault.
  const nlohmann::json* Find(const char* key) const {
    if (!status_.ok()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  void Damaged(std::string_view fault) { status_.Update(faults_.damaged(fault)); }
  void Fail(const char* key, std::string_view fault) {
    Damaged(StrCat(key, " ", fault));
  }

  template <class T, class... Members>
  void operator()(const char* key, T& value, const Members&... members) {
    const nlohmann::json* const found = Find(key);
    if (found == nullptr) return;
    if constexpr (requires { value.has_value(); }) {
      (*this)(key, value.emplace(), members...);
    } else if constexpr (requires { value.time_since_epoch(); }) {
      if (!found->is_number_integer()) return Fail(key, "is not a time");
      value = T(std::chrono::milliseconds(found->get<int64_t>()));
    } else if constexpr (requires { value.count(); }) {
      int64_t count = 0;
      (*this)(key, count);
      value = T(count);
    } else if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::string>) {
      if (!Holds<T>(*found)) {
        return Fail(key, std::is_same_v<T, std::string> ? "is not a text"
                         : std::is_same_v<T, bool>      ? "is not a boolean"
                                                        : faults_.integer);
      }
      value = found->get<T>();
    } else if constexpr (requires { value.emplace_back(); }) {
      using Item = typename T::value_type;
      if (!found->is_array()) return Fail(key, "is not a list");
      for (const nlohmann::json& item : *found) {
        if constexpr (sizeof...(members) > 0) {
          RecordReader inner(item, faults_, status_);
          (members(inner, value.emplace_back()), ...);
        } else {
          if (!Holds<Item>(item)) {
            return Fail(key, std::is_same_v<Item, std::string>
                                 ? faults_.texts
                                 : "is not a list of such integers");
          }
          value.push_back(item.get<Item>());
        }
      }
    } else {
      if (!found->is_object()) return Fail(key, "is not an object");
      RecordReader inner(*found, faults_, status_);
      if constexpr (sizeof...(members) > 0) {
        (members(inner, value), ...);
      } else {  // a map of texts
        for (const auto& [name, item] : found->items()) {
          inner(name.c_str(), value[name]);
        }
      }
    }
  }
  // It must be there.
  template <class T>
  void Name(const char* key, T& value, const auto& names) {
    std::string name;
    (*this)(key, name);
    const auto found = std::ranges::find(names, name);
    if (found == std::end(names)) return Fail(key, "is unknown");
    value = static_cast<T>(found - std::begin(names));
  }

 private:
  template <class T>
  static bool Holds(const nlohmann::json& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      return value.is_string();
    } else if constexpr (std::is_same_v<T, bool>) {
      return value.is_boolean();
    } else {
      return value.is_number_unsigned() && std::in_range<T>(value.get<uint64_t>());
    }
  }

  const nlohmann::json& object_;
  const Faults& faults_;
  absl::Status& status_;
};

// Sampling parameters in a record: see FormatSessionRecord.
nlohmann::json SamplingJson(const SessionSampling& sampling);
absl::StatusOr<SessionSampling> ParseSampling(const nlohmann::json& object);

}  // namespace mnemon
