// SPDX-License-Identifier: MIT
#include "model/io/tensor_check.h"

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

absl::Status CheckTensors(const Safetensors& file,
                          std::span<const TensorShape> expected,
                          std::span<const NonFinite> non_finite) {
  Faults faults;
  std::map<const TensorInfo*, int64_t> non_finite_at;
  for (const NonFinite& at : non_finite) {
    non_finite_at[&file.header().tensors[at.tensor]] = at.element;
  }
  std::set<std::string_view> known;
  for (const TensorShape& tensor : expected) {
    known.insert(tensor.name);
    const TensorInfo* found = file.Find(tensor.name);
    const auto bad = non_finite_at.find(found);
    if (found == nullptr) {
      faults.Add(tensor.name,
                 StrCat("is missing, expected ", Describe(DType::kF32, tensor.shape)));
    } else if (found->dtype != DType::kF32 || found->shape != tensor.shape) {
      faults.Add(tensor.name,
                 StrCat("is ", Describe(found->dtype, found->shape), ", expected ",
                        Describe(DType::kF32, tensor.shape)));
    } else if (bad != non_finite_at.end()) {
      faults.Add(tensor.name, StrCat("is not finite at element ", bad->second));
    }
  }
  for (const TensorInfo& tensor : file.header().tensors) {
    if (!known.contains(tensor.name)) faults.Add(tensor.name, "is not expected");
  }
  return faults.status();
}

}  // namespace mnemon
