// SPDX-License-Identifier: MIT
#include "model/io/tensor_check.h"

#include <cmath>
#include <cstring>
#include <set>

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

// Index of the first element that is NaN or infinite; -1 when there is none.
int64_t FirstNonFinite(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    if (!std::isfinite(value)) return static_cast<int64_t>(at / sizeof(float));
  }
  return -1;
}

}  // namespace

absl::Status CheckTensors(const Safetensors& file,
                          std::span<const ExpectedTensor> expected,
                          bool refuse_non_finite) {
  Faults faults;
  std::set<std::string_view> known;
  for (const ExpectedTensor& tensor : expected) {
    known.insert(tensor.name);
    const TensorInfo* found = file.Find(tensor.name);
    if (found == nullptr) {
      faults.Add(tensor.name,
                 StrCat("is missing, expected ", Describe(DType::kF32, tensor.shape)));
    } else if (found->dtype != DType::kF32 || found->shape != tensor.shape) {
      faults.Add(tensor.name,
                 StrCat("is ", Describe(found->dtype, found->shape), ", expected ",
                        Describe(DType::kF32, tensor.shape)));
    } else if (refuse_non_finite) {
      const int64_t index = FirstNonFinite(file.Bytes(*found));
      if (index >= 0)
        faults.Add(tensor.name, StrCat("is not finite at element ", index));
    }
  }
  for (const TensorInfo& tensor : file.header().tensors) {
    if (!known.contains(tensor.name)) faults.Add(tensor.name, "is not expected");
  }
  return faults.status();
}

}  // namespace mnemon
