// SPDX-License-Identifier: MIT
#include "train/data/config.h"

#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/process/nearest_name.h"
#include "base/strings.h"
#include "model/families/families.h"
#include "train/data/curriculum.h"
#include "train/data/drawn_task.h"

namespace mnemon {
namespace {

template <class E>
struct Choices;
template <>
struct Choices<TaskKind> {
  static constexpr auto names = std::to_array<std::string_view>(
      {"text", "reverse", "dihedral", "copy", "retrieval", "capacity", "recall"});
};
template <>
struct Choices<LoaderKind> {
  static constexpr auto names =
      std::to_array<std::string_view>({"shuffled", "sequential"});
};
template <>
struct Choices<OptimiserKind> {
  static constexpr auto names =
      std::to_array<std::string_view>({"sgd", "adam", "adamw", "adam_labml"});
};
template <>
struct Choices<ScheduleKind> {
  static constexpr auto names =
      std::to_array<std::string_view>({"constant", "cosine", "noam"});
};
template <>
struct Choices<Precision> {
  static constexpr auto names = std::to_array<std::string_view>({"fp32", "bf16"});
};
template <>
struct Choices<Backward> {
  static constexpr auto names = std::to_array<std::string_view>({"fused", "autograd"});
};
template <>
struct Choices<Initialisation> {
  static constexpr auto names = std::to_array<std::string_view>({"sane", "reference"});
};

template <>
struct Choices<UnknownCharacters> {
  static constexpr auto names = kUnknownCharactersNames;
};

template <class E>
std::string_view NameOf(E value) {
  return Choices<E>::names[static_cast<size_t>(value)];
}

constexpr std::string_view kModelPrefix = "model.";

// Fields of ModelConfig that a run does not choose.
bool FixedByRun(std::string_view key) {
  return key == "vocab" || key == "format_version";
}

std::string NumberText(double value) {
  for (int digits = 1; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    if (back == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

template <class T>
std::string FieldText(const T& field) {
  if constexpr (std::is_same_v<T, std::string>) {
    return field;
  } else if constexpr (std::is_same_v<T, bool>) {
    return field ? "true" : "false";
  } else if constexpr (std::is_same_v<T, double>) {
    return NumberText(field);
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(Name(field));
  } else {
    return StrCat(field);
  }
}

template <class T>
std::string Wanted(const Limits& limits) {
  if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_enum_v<T>) {
    return StrCat("one of ", StrJoin(Choices<T>::names, ", "));
  } else {
    return StrCat(std::is_same_v<T, double> ? "a number" : "an integer", " from ",
                  NumberText(limits.least), " to ", NumberText(limits.most));
  }
}

template <class T>
bool Assign(const std::string& text, const Limits& limits, T& field) {
  if constexpr (std::is_same_v<T, std::string>) {
    field = text;
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    field = text == "true";
    return field || text == "false";
  } else if constexpr (std::is_enum_v<T>) {
    for (size_t i = 0; i < Choices<T>::names.size(); ++i) {
      if (Choices<T>::names[i] != text) continue;
      field = static_cast<T>(i);
      return true;
    }
    return false;
  } else {
    T value{};
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) return false;
    if (!(value >= limits.least && value <= limits.most)) return false;
    field = value;
    return true;
  }
}

absl::Status SetModelField(ModelConfig& model, const std::string& key,
                           const std::string& value) {
  if (key == "architecture") {
    absl::Status status = SetArchitecture(model, value);
    if (status.ok()) return status;
    return InvalidField("model.architecture",
                        StrCat("model.architecture: ", std::string(status.message())));
  }
  absl::Status status = SetConfigField(model, key, value);
  if (status.ok()) return status;
  return InvalidField("model." + key, StrCat("model.", std::string(status.message())));
}

}  // namespace

std::string_view Name(TaskKind value) { return NameOf(value); }
std::string_view Name(LoaderKind value) { return NameOf(value); }
std::string_view Name(OptimiserKind value) { return NameOf(value); }
std::string_view Name(ScheduleKind value) { return NameOf(value); }
std::string_view Name(Precision value) { return NameOf(value); }
std::string_view Name(Backward value) { return NameOf(value); }
std::string_view Name(Initialisation value) { return NameOf(value); }

std::vector<std::pair<std::string, std::string>> TrainFields(
    const TrainConfig& config) {
  std::vector<std::pair<std::string, std::string>> fields;
  VisitTrainFields(config,
                   [&](const char* key, const auto& field, const Limits&, const char*) {
                     fields.emplace_back(key, FieldText(field));
                   });
  // The model's own fields follow model.init.
  auto place = fields.begin() + 2;
  VisitConfigFields(config.model, [&](const char* key, const auto& field, auto...) {
    if (FixedByRun(key)) return;
    place = fields.emplace(place, StrCat(kModelPrefix, key), FieldText(field)) + 1;
  });
  return fields;
}

absl::Status SetTrainField(TrainConfig& config, const std::string& key,
                           const std::string& value) {
  bool found = false;
  absl::Status status;
  VisitTrainFields(config, [&]<class T>(std::string_view name, T& field,
                                        const Limits& limits, const char*) {
    if (name != key) return;
    found = true;
    if (Assign(value, limits, field)) return;
    status = InvalidField(
        key, StrCat(key, " must be ", Wanted<T>(limits), ", got '", value, "'"));
  });
  if (found) return status;
  std::vector<std::string> known;
  for (const auto& [name, unused] : TrainFields(config)) {
    if (name == key) {
      return SetModelField(config.model, key.substr(kModelPrefix.size()), value);
    }
    known.push_back(name);
  }
  if (key == "model.vocab") {
    return InvalidField(key, "model.vocab is not a key: the task decides it");
  }
  return InvalidField(key, StrCat("unknown key ", key, DidYouMean(key, known)));
}

namespace {

// Faults of the options for the task.
void CheckTask(const TrainConfig& config, std::vector<std::string>& faults) {
  const auto entry = FindFamily(config.model.architecture);
  const bool encoder = entry.ok() && !(*entry)->autoregressive();
  if (config.data.task == TaskKind::kText) {
    if (config.data.text.empty()) {
      faults.push_back("data.text is missing: name the file to train on");
    }
    if (encoder) {
      faults.push_back(StrCat("architecture ", config.model.architecture,
                              " sees the tokens to come: data.task = text needs an "
                              "autoregressive one, or set data.task = reverse"));
    }
    return;
  }
  if (config.model.d_model <= FeatureWidth(config.data)) {
    faults.push_back(StrCat("model.d_model must be more than data.classes, ",
                            config.data.classes,
                            ", for data.task = ", Name(config.data.task)));
  }
  for (std::string& fault : DrawnTaskFaults(config.data)) {
    faults.push_back(std::move(fault));
  }
  const bool ahead = config.data.task == TaskKind::kReverse;
  if (encoder && !ahead) {
    faults.push_back(StrCat("architecture ", config.model.architecture,
                            " sees the tokens to come: data.task = ",
                            Name(config.data.task), " needs an autoregressive one"));
  }
  if (entry.ok() && !encoder && ahead) {
    faults.push_back(StrCat("architecture ", config.model.architecture,
                            " does not see the tokens to come: data.task = reverse "
                            "needs an encoder"));
  }
}

// Stages obey the rules of data.seq_len and are not longer.
void CheckCurriculum(const TrainConfig& config, std::vector<std::string>& faults) {
  const auto stages = ParseCurriculum(config.data.curriculum);
  if (!stages.ok()) {
    faults.push_back(
        StrCat("data.curriculum: ", std::string(stages.status().message())));
    return;
  }
  const bool drawn = config.data.task != TaskKind::kText;
  if (drawn && !DrawnTaskFaults(config.data).empty()) return;
  int64_t shortest = 1;
  for (const CurriculumStage& stage : *stages) {
    DataOptions data = config.data;
    data.seq_len = stage.length;
    std::vector<std::string> own;
    if (drawn) own = DrawnTaskFaults(data);
    if (stage.length > config.data.seq_len) {
      own.push_back(StrCat("longer than data.seq_len, ", config.data.seq_len));
    }
    if (stage.length < shortest) own.push_back("shorter than the one before");
    shortest = stage.length;
    for (const std::string& fault : own) {
      faults.push_back(
          StrCat("data.curriculum: a stage of ", stage.length, ": ", fault));
    }
  }
}

}  // namespace

absl::Status ValidateTrainConfig(const TrainConfig& config) {
  std::vector<std::string> faults;
  VisitTrainFields(config, [&]<class T>(const char* key, const T& field,
                                        const Limits& limits, const char*) {
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, int64_t>) {
      if (field >= limits.least && field <= limits.most) return;
      faults.push_back(StrCat(key, " must be ", Wanted<T>(limits)));
    }
  });
  CheckTask(config, faults);
  CheckCurriculum(config, faults);
  const DurationOptions& d = config.duration;
  if ((d.steps > 0) + (d.epochs > 0) + (d.seconds > 0) != 1) {
    faults.push_back("set exactly one of train.steps, train.epochs, train.seconds");
  }
  if (config.schedule.kind == ScheduleKind::kNoam && config.schedule.warmup < 1) {
    faults.push_back("schedule.warmup must be at least 1 for noam");
  }
  if (config.model.architecture.empty()) {
    faults.push_back("model.architecture is missing");
  } else {
    ModelConfig model = config.model;
    model.vocab = config.data.task == TaskKind::kText ? 256 : DrawnVocab(config.data);
    const absl::Status status = DescribeModel(model).status();
    if (!status.ok()) {
      faults.push_back(StrCat("[model] ", std::string(status.message())));
    }
  }
  if (faults.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(StrJoin(faults, "\n"));
}

}  // namespace mnemon
