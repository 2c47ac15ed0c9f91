// SPDX-License-Identifier: MIT
#include "model/io/gguf_keys.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr int64_t kMostSetting = int64_t{1} << 40;
constexpr size_t kMostFaults = 100;

// Prefixes of keys that do not affect what a model computes, or are read elsewhere:
// facts, the tokenizer, parts of a file, and how it was quantised.
constexpr std::string_view kHarmlessKinds[] = {"general.", "tokenizer.", "split.",
                                               "quantize.", "mradermacher."};

}  // namespace

std::string GgufKeys::Whole(std::string_view key) const {
  return StrCat(architecture_, ".", key);
}

void GgufKeys::Refuse(std::string_view key, std::string_view what) {
  Fault(StrCat("key ", Quoted(Whole(key)), " ", what));
}

int64_t GgufKeys::Integer(std::string_view key, std::optional<int64_t> otherwise) {
  Ignore(key);
  if (const auto* const value = file_.Find<int64_t>(Whole(key))) {
    if (*value >= 0 && *value <= kMostSetting) return *value;
    Refuse(key, StrCat("is ", *value, ", supported: 0 to 2^40"));
  } else if (Has(key)) {
    Refuse(key, "is no integer");
  } else if (!otherwise) {
    Refuse(key, "is missing");
  }
  return otherwise.value_or(0);
}

double GgufKeys::Number(std::string_view key, std::optional<double> otherwise) {
  Ignore(key);
  if (const std::optional<double> value = file_.Number(Whole(key))) return *value;
  if (Has(key)) {
    Refuse(key, "is not a finite number");
  } else if (!otherwise) {
    Refuse(key, "is missing");
  }
  return otherwise.value_or(0);
}

std::string GgufKeys::Text(std::string_view key, const std::string& otherwise) {
  Ignore(key);
  if (const auto* const value = file_.Find<std::string>(Whole(key))) return *value;
  if (Has(key)) Refuse(key, "is not a string");
  return otherwise;
}

std::vector<int64_t> GgufKeys::Integers(std::string_view key) {
  Ignore(key);
  if (const auto* const value = file_.Find<std::vector<int64_t>>(Whole(key))) {
    return *value;
  }
  if (Has(key)) Refuse(key, "is not an array of integers");
  return {};
}

void GgufKeys::OnlyInteger(std::string_view key, int64_t supported) {
  const int64_t found = Integer(key, supported);
  if (found != supported) Refuse(key, StrCat("is ", found, ", supported: ", supported));
}

void GgufKeys::OnlyNumber(std::string_view key, double supported) {
  const double found = Number(key, supported);
  if (found != supported) Refuse(key, StrCat("is ", found, ", supported: ", supported));
}

absl::Status GgufKeys::status() const {
  std::vector<std::string> faults = faults_;
  for (const auto& entry : file_.values) {
    const std::string& key = entry.first;
    const bool known =
        asked_.contains(key) || std::ranges::any_of(kHarmlessKinds, [&](auto kind) {
          return key.starts_with(kind);
        });
    if (!known) {
      faults.push_back(StrCat("key ", Quoted(key),
                              " is not known to this program, and may change what the "
                              "model computes"));
    }
  }
  if (faults.empty()) return absl::OkStatus();
  if (faults.size() > kMostFaults) {
    const size_t more = faults.size() - kMostFaults;
    faults.resize(kMostFaults);
    faults.push_back(StrCat("and ", more, " more"));
  }
  return MakeError(absl::StatusCode::kInvalidArgument,
                   StrCat("gguf: ", StrJoin(faults, "; ")),
                   {.reason = "UNSUPPORTED_MODEL", .field = ""});
}

}  // namespace mnemon
