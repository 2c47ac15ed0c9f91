// SPDX-License-Identifier: MIT
#include "train/run/training_state.h"

#include <type_traits>
#include <vector>

#include "base/files/json.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

template <class T>
bool HasType(const nlohmann::json& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string();
  } else if constexpr (std::is_same_v<T, double>) {
    return value.is_number();
  } else if constexpr (std::is_same_v<T, std::optional<int64_t>>) {
    return value.is_null() || HasType<int64_t>(value);
  } else {
    // All counts: never negative.
    return value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX;
  }
}

template <class T>
nlohmann::json ToJson(const T& field) {
  return field;
}
nlohmann::json ToJson(const std::optional<int64_t>& field) {
  return field ? nlohmann::json(*field) : nlohmann::json();
}

template <class T>
void FromJson(const nlohmann::json& value, T& field) {
  field = value.get<T>();
}
void FromJson(const nlohmann::json& value, std::optional<int64_t>& field) {
  field.reset();
  if (!value.is_null()) field = value.get<int64_t>();
}

}  // namespace

std::string FormatTrainingState(const TrainingState& state) {
  nlohmann::ordered_json json;
  VisitTrainingState(
      state, [&](const char* key, const auto& field) { json[key] = ToJson(field); });
  return json.dump(2) + "\n";
}

absl::StatusOr<TrainingState> ParseTrainingState(std::string_view text,
                                                 std::string_view what) {
  MNEMON_ASSIGN_OR_RETURN(nlohmann::json json, ParseJson(text, what));
  // Runs of earlier versions do not have them.
  if (json.is_object()) {
    json.emplace("next_stage", 0u);
    json.emplace("tokens", nullptr);
  }
  TrainingState state;
  std::vector<std::string> faults;
  VisitTrainingState(state, [&]<class T>(const char* key, T& field) {
    if (!json.is_object() || !json.contains(key) || !HasType<T>(json[key])) {
      faults.emplace_back(key);
    } else {
      FromJson(json[key], field);
    }
  });
  if (faults.empty()) return state;
  return absl::InvalidArgumentError(
      StrCat(what, ": missing or of the wrong type: ", StrJoin(faults, ", ")));
}

}  // namespace mnemon
