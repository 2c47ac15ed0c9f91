// SPDX-License-Identifier: MIT
// The processes of one training run, which compute every batch together. A group only
// exchanges tensors and reduces none: each process adds them itself, in a fixed order.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train/parallel/launch.h"

namespace mnemon {

// Every process calls the same functions in the same order, with contiguous tensors of
// the same shapes, on the group's device or on the CPU. UNAVAILABLE: contact with a
// process is lost, and the run must end. Used by one thread.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  int rank() const { return rank_; }  // from 0
  int size() const { return size_; }
  bool first() const { return rank_ == 0; }

  // Copies `tensor` of process `from` to all others.
  virtual absl::Status Broadcast(int from, at::Tensor tensor) = 0;
  // all[p] = own of process p.
  virtual absl::Status AllGather(const at::Tensor& own, at::Tensor all) = 0;
  // received[p] = sent[rank()] of process p.
  virtual absl::Status AllToAll(const at::Tensor& sent, at::Tensor received) = 0;

  // Copies the bytes of process 0 to all others.
  absl::Status BroadcastBytes(std::string& bytes);

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}

 private:
  const int rank_, size_;
};

// The group of a single process.
std::unique_ptr<ProcessGroup> MakeSingleProcess();

// Connects the processes of `launch` over TCP: by Gloo for tensors on the CPU, by NCCL
// on GPUs. Waits up to `timeout` for all of them; so does every call of the group.
// UNIMPLEMENTED if this build's libtorch lacks that library. UNAVAILABLE if a process
// does not connect.
absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinProcessGroup(
    const Launch& launch, bool on_gpu, std::chrono::seconds timeout);

}  // namespace mnemon
