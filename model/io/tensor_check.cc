// SPDX-License-Identifier: MIT
#include "model/io/tensor_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr size_t kMostListed = 100;

class Faults {
 public:
  void Add(const std::string& name, std::string_view fault) {
    if (listed_.size() < kMostListed)
      listed_.push_back(StrCat(Quoted(name), " ", fault));
    ++count_;
  }
  absl::Status status() const {
    if (count_ == 0) return absl::OkStatus();
    std::string text = StrJoin(listed_, "; ");
    if (count_ > listed_.size())
      text += StrCat("; and ", count_ - listed_.size(), " more");
    return MakeError(absl::StatusCode::kInvalidArgument, "tensors do not fit: " + text,
                     {.reason = "INVALID_WEIGHTS"});
  }

 private:
  std::vector<std::string> listed_;
  size_t count_ = 0;
};

}  // namespace

DType TypeOf(const TensorShape& tensor) {
  return tensor.int8 ? DType::kI8 : DType::kF32;
}

std::vector<NeededTensor> NeededOf(std::span<const TensorShape> tensors) {
  std::vector<NeededTensor> needed;
  for (const TensorShape& tensor : tensors) {
    needed.push_back({tensor.name, tensor.shape, {TypeOf(tensor)}});
  }
  return needed;
}

absl::Status CheckTensors(std::span<const Safetensors> files,
                          std::span<const NeededTensor> needed,
                          std::span<const BadWeight> bad_weights,
                          std::span<const std::string> ignored) {
  Faults faults;
  std::map<std::string_view, int64_t> bad_at;
  for (const BadWeight& bad : bad_weights) bad_at[bad.tensor] = bad.element;
  std::map<std::string_view, const TensorInfo*> found;
  for (const Safetensors& file : files) {
    for (const TensorInfo& tensor : file.header().tensors) {
      if (!found.emplace(tensor.name, &tensor).second) {
        faults.Add(tensor.name, "is in two files");
      }
    }
  }
  std::set<std::string_view> known;
  for (const NeededTensor& tensor : needed) {
    if (!known.insert(tensor.name).second) continue;
    std::string expected = "expected ";
    for (size_t i = 0; i + 1 < tensor.types.size(); ++i) {
      expected += StrCat(Name(tensor.types[i]), " or ");
    }
    expected += Describe(tensor.types.back(), tensor.shape);
    const auto at = found.find(tensor.name);
    if (at == found.end()) {
      faults.Add(tensor.name, StrCat("is missing, ", expected));
      continue;
    }
    const TensorInfo& info = *at->second;
    const auto bad = bad_at.find(tensor.name);
    if (!std::ranges::count(tensor.types, info.dtype) || info.shape != tensor.shape) {
      faults.Add(tensor.name,
                 StrCat("is ", Describe(info.dtype, info.shape), ", ", expected));
    } else if (bad != bad_at.end()) {
      faults.Add(tensor.name, StrCat(FaultOf(info), " at element ", bad->second));
    }
  }
  for (const auto& [name, info] : found) {
    const bool wanted =
        known.contains(name) ||
        std::ranges::any_of(ignored, [&name = name](const std::string& end) {
          return name.ends_with(end);
        });
    if (!wanted) faults.Add(info->name, "is not expected");
  }
  return faults.status();
}

}  // namespace mnemon
