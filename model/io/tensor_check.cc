// SPDX-License-Identifier: MIT
#include "model/io/tensor_check.h"

#include <algorithm>
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
  // Branches at the end of a stretch alone, so that the loop runs as fast as memory.
  constexpr size_t kStretch = 1024;
  constexpr uint32_t kExponent = 0x7F800000;
  const size_t count = bytes.size() / sizeof(float);
  for (size_t begin = 0; begin < count; begin += kStretch) {
    uint32_t bits[kStretch];
    const size_t here = std::min(kStretch, count - begin);
    std::memcpy(bits, bytes.data() + begin * sizeof(float), here * sizeof(float));
    uint32_t found = 0;
    for (size_t i = 0; i < here; ++i) found |= (bits[i] & kExponent) == kExponent;
    if (found == 0) continue;
    for (size_t i = 0; i < here; ++i) {
      if ((bits[i] & kExponent) == kExponent) return static_cast<int64_t>(begin + i);
    }
  }
  return -1;
}

}  // namespace

absl::Status CheckTensors(const Safetensors& file,
                          std::span<const TensorShape> expected,
                          bool refuse_non_finite) {
  Faults faults;
  std::set<std::string_view> known;
  for (const TensorShape& tensor : expected) {
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
