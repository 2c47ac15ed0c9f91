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

DType TypeOf(const TensorShape& tensor) {
  return tensor.int8 ? DType::kI8 : DType::kF32;
}

absl::Status CheckTensors(const Safetensors& file,
                          std::span<const TensorShape> expected,
                          std::span<const BadWeight> bad_weights) {
  Faults faults;
  std::map<const TensorInfo*, int64_t> bad_at;
  for (const BadWeight& at : bad_weights) {
    bad_at[&file.header().tensors[at.tensor]] = at.element;
  }
  std::set<std::string_view> known;
  for (const TensorShape& tensor : expected) {
    known.insert(tensor.name);
    const DType type = TypeOf(tensor);
    const TensorInfo* found = file.Find(tensor.name);
    const auto bad = bad_at.find(found);
    if (found == nullptr) {
      faults.Add(tensor.name,
                 StrCat("is missing, expected ", Describe(type, tensor.shape)));
    } else if (found->dtype != type || found->shape != tensor.shape) {
      faults.Add(tensor.name, StrCat("is ", Describe(found->dtype, found->shape),
                                     ", expected ", Describe(type, tensor.shape)));
    } else if (bad != bad_at.end()) {
      faults.Add(tensor.name, StrCat(FaultOf(*found), " at element ", bad->second));
    }
  }
  for (const TensorInfo& tensor : file.header().tensors) {
    if (!known.contains(tensor.name)) faults.Add(tensor.name, "is not expected");
  }
  return faults.status();
}

}  // namespace mnemon
