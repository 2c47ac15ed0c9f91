// SPDX-License-Identifier: MIT
#include "model/families/config.h"

#include <array>
#include <charconv>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/json.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

template <class E>
struct EnumNames;

#define MNEMON_ENUM_NAMES(E, ...)                                                 \
  template <>                                                                     \
  struct EnumNames<E> {                                                           \
    static constexpr auto names = std::to_array<std::string_view>({__VA_ARGS__}); \
  };                                                                              \
  }                                                                               \
  std::string_view Name(E value) {                                                \
    return EnumNames<E>::names[static_cast<size_t>(value)];                       \
  }                                                                               \
  namespace {

MNEMON_ENUM_NAMES(PositionKind, "none", "sinusoidal", "learned", "alibi", "relative")
MNEMON_ENUM_NAMES(Window, "segment", "sliding")
MNEMON_ENUM_NAMES(FeatureMapKind, "dpfp", "elu")
MNEMON_ENUM_NAMES(UpdateRule, "delta", "sum")
MNEMON_ENUM_NAMES(Normalise, "none", "z")
MNEMON_ENUM_NAMES(Projection, "per_layer", "shared")
MNEMON_ENUM_NAMES(PositionBias, "free", "tied")
MNEMON_ENUM_NAMES(Activation, "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")
MNEMON_ENUM_NAMES(Mask, "none", "causal")

#undef MNEMON_ENUM_NAMES

const std::set<std::string_view>& RequiredKeys() {
  static const auto* keys = new std::set<std::string_view>{
      "architecture", "d_model", "heads", "layers", "d_ff", "vocab"};
  return *keys;
}

bool AssignEnum(std::string_view text, auto& field) {
  using E = std::remove_reference_t<decltype(field)>;
  for (size_t i = 0; i < EnumNames<E>::names.size(); ++i) {
    if (EnumNames<E>::names[i] == text) {
      field = static_cast<E>(i);
      return true;
    }
  }
  return false;
}

template <class E>
std::string EnumChoices() {
  return StrCat("one of ", StrJoin(EnumNames<E>::names, ", "));
}

std::string RangeFault(std::string_view key, std::string_view got, FieldRange range) {
  return StrCat(key, " must be an integer from ", range.least, " to ", range.most,
                ", got ", got);
}

absl::Status AllFaults(const std::vector<std::string>& faults) {
  if (faults.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument,
                   StrCat("config: ", StrJoin(faults, "; ")),
                   {.reason = "INVALID_CONFIG"});
}

class JsonReader {
 public:
  JsonReader(const nlohmann::json& json, std::vector<std::string>& faults)
      : json_(json), faults_(faults) {}

  void operator()(const char* key, int64_t& field, FieldRange range) {
    const nlohmann::json* value = Find(key);
    if (!value) return;
    if (!value->is_number_integer() ||
        (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
      faults_.push_back(RangeFault(key, Quoted(value->dump()), range));
    } else {
      field = value->get<int64_t>();
    }
  }
  void operator()(const char* key, std::string& field) {
    const nlohmann::json* value = Find(key);
    if (!value) return;
    if (value->is_string()) {
      field = value->get<std::string>();
    } else {
      faults_.push_back(StrCat(key, " must be a string"));
    }
  }
  void operator()(const char* key, bool& field) {
    const nlohmann::json* value = Find(key);
    if (!value) return;
    if (value->is_boolean()) {
      field = value->get<bool>();
    } else {
      faults_.push_back(StrCat(key, " must be true or false"));
    }
  }
  void operator()(const char* key, double& field) {
    const nlohmann::json* value = Find(key);
    if (!value) return;
    if (value->is_number()) {
      field = value->get<double>();
    } else {
      faults_.push_back(StrCat(key, " must be a number"));
    }
  }
  template <class E>
  requires std::is_enum_v<E>
  void operator()(const char* key, E& field) {
    const nlohmann::json* value = Find(key);
    if (!value) return;
    if (!value->is_string() || !AssignEnum(value->get<std::string>(), field)) {
      faults_.push_back(StrCat(key, " must be ", EnumChoices<E>()));
    }
  }

  const std::set<std::string>& known() const { return known_; }

 private:
  const nlohmann::json* Find(const char* key) {
    known_.insert(key);
    auto found = json_.find(key);
    if (found != json_.end()) return &*found;
    if (RequiredKeys().contains(key)) {
      faults_.push_back(StrCat("missing key ", key));
    }
    return nullptr;
  }

  const nlohmann::json& json_;
  std::vector<std::string>& faults_;
  std::set<std::string> known_;
};

template <class T>
bool ParseNumber(std::string_view text, T& out) {
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && stop == end;
}

}  // namespace

absl::Status ValidateConfig(const ModelConfig& config) {
  std::vector<std::string> faults;
  VisitConfigFields(config,
                    [&]<class T>(const char* key, const T& field, auto... range) {
                      if constexpr (sizeof...(range) == 1) {
                        const FieldRange r = (range, ...);
                        if (field < r.least || field > r.most) {
                          faults.push_back(RangeFault(key, StrCat(field), r));
                        }
                      }
                    });
  // Sampling adds weights of up to 2^40 in 64 bits.
  if (config.vocab == 1 << 24) faults.push_back("vocab must be below 2^24");
  if (config.architecture.empty()) faults.push_back("architecture is empty");
  if (!(config.dropout >= 0.0 && config.dropout < 1.0)) {
    faults.push_back(StrCat("dropout must be from 0 to below 1, got ", config.dropout));
  }
  if (faults.empty()) {
    if (config.d_model % config.heads != 0) {
      faults.push_back(StrCat("heads (", config.heads, ") must divide d_model (",
                              config.d_model, ")"));
    }
  }
  return AllFaults(faults);
}

absl::StatusOr<ModelConfig> ParseConfig(std::string_view text) {
  MNEMON_ASSIGN_OR_RETURN(nlohmann::json json,
                          ParseJson(text, "config.json", {.max_depth = 8}));
  if (!json.is_object()) return AllFaults({"not a JSON object"});
  if (auto version = json.find("format_version");
      version != json.end() && version->is_number_integer() &&
      version->get<int64_t>() > kConfigFormatVersion) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("config.json has format_version ", version->get<int64_t>(),
                            "; this program reads up to ", kConfigFormatVersion),
                     {.reason = "FORMAT_TOO_NEW", .field = "format_version"});
  }
  ModelConfig config;
  std::vector<std::string> faults;
  JsonReader reader(json, faults);
  VisitConfigFields(config, [&](const char* key, auto& field, auto... range) {
    reader(key, field, range...);
  });
  std::vector<std::string> unknown;
  for (const auto& [key, value] : json.items()) {
    if (!reader.known().contains(key)) unknown.push_back(Quoted(key));
  }
  // In a file of another program every key would be a fault.
  if (!json.contains("architecture") && !unknown.empty() &&
      2 * unknown.size() >= json.size()) {
    return AllFaults(
        {StrCat("no configuration of mnemon: it names no architecture, and most of its "
                "keys are others, as ",
                unknown[0])});
  }
  for (const std::string& key : unknown) {
    faults.push_back(StrCat("unknown key ", key));
  }
  MNEMON_RETURN_IF_ERROR(AllFaults(faults));
  MNEMON_RETURN_IF_ERROR(ValidateConfig(config));
  return config;
}

absl::Status SetConfigField(ModelConfig& config, std::string_view key,
                            std::string_view value) {
  bool found = false;
  std::string wanted;
  VisitConfigFields(config,
                    [&]<class T>(std::string_view name, T& field, auto... range) {
                      if (name != key) return;
                      found = true;
                      bool ok = false;
                      if constexpr (std::is_same_v<T, std::string>) {
                        field = std::string(value);
                        ok = true;
                      } else if constexpr (std::is_same_v<T, bool>) {
                        ok = value == "true" || value == "false";
                        if (ok) field = value == "true";
                        wanted = "true or false";
                      } else if constexpr (std::is_enum_v<T>) {
                        ok = AssignEnum(value, field);
                        wanted = EnumChoices<T>();
                      } else {
                        T parsed{};
                        ok = ParseNumber(value, parsed);
                        if (ok) field = parsed;
                        wanted = std::is_same_v<T, double> ? "a number" : "an integer";
                      }
                      if (ok) wanted.clear();
                    });
  if (!found) {
    return InvalidField(std::string(key), StrCat("unknown key ", Quoted(key)));
  }
  if (!wanted.empty()) {
    return InvalidField(std::string(key),
                        StrCat(key, " must be ", wanted, ", got ", Quoted(value)));
  }
  return absl::OkStatus();
}

std::string ConfigToJson(const ModelConfig& config) {
  nlohmann::ordered_json json;
  VisitConfigFields(config, [&]<class T>(const char* key, const T& field, auto...) {
    if constexpr (std::is_enum_v<T>) {
      json[key] = std::string(Name(field));
    } else {
      json[key] = field;
    }
  });
  return json.dump(2) + "\n";
}

}  // namespace mnemon
