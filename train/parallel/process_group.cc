// SPDX-License-Identifier: MIT
#include "train/parallel/process_group.h"

#include <algorithm>

#include <ATen/ops/empty.h>

#include "base/status_macros.h"

namespace mnemon {
namespace {

class SingleProcess final : public ProcessGroup {
 public:
  SingleProcess() : ProcessGroup(0, 1) {}

  absl::Status Broadcast(int, at::Tensor) override { return absl::OkStatus(); }
  absl::Status AllGather(const at::Tensor& own, at::Tensor all) override {
    all.select(0, 0).copy_(own);
    return absl::OkStatus();
  }
  absl::Status AllToAll(const at::Tensor& sent, at::Tensor received) override {
    received.copy_(sent);
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status ProcessGroup::BroadcastBytes(std::string& bytes) {
  auto size = static_cast<int64_t>(bytes.size());
  at::Tensor length = at::empty({1}, at::kLong);
  *length.data_ptr<int64_t>() = size;
  MNEMON_RETURN_IF_ERROR(Broadcast(0, length));
  size = *length.data_ptr<int64_t>();
  if (size == 0) {
    bytes.clear();
    return absl::OkStatus();
  }
  at::Tensor content = at::empty({size}, at::kByte);
  auto* const data = reinterpret_cast<char*>(content.data_ptr<uint8_t>());
  if (first()) std::copy(bytes.begin(), bytes.end(), data);
  MNEMON_RETURN_IF_ERROR(Broadcast(0, content));
  bytes.assign(data, static_cast<size_t>(size));
  return absl::OkStatus();
}

std::unique_ptr<ProcessGroup> MakeSingleProcess() {
  return std::make_unique<SingleProcess>();
}

}  // namespace mnemon
