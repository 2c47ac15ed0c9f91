// SPDX-License-Identifier: MIT
// The processes of one training run, which compute every batch together. Nothing is
// reduced here: what processes have is exchanged, and each adds it in an order of ours.
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
// the same shapes, on the device of the group or, where that is a GPU, on the CPU.
// UNAVAILABLE: contact with a process is lost; the run is over. Used by one thread.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  int rank() const { return rank_; }  // from 0
  int size() const { return size_; }
  bool first() const { return rank_ == 0; }

  // `tensor` of process `from` comes to all.
  virtual absl::Status Broadcast(int from, at::Tensor tensor) = 0;
  // all[p] = own of process p.
  virtual absl::Status AllGather(const at::Tensor& own, at::Tensor all) = 0;
  // received[p] = sent[rank()] of process p.
  virtual absl::Status AllToAll(const at::Tensor& sent, at::Tensor received) = 0;

  // Bytes of process 0 come to all.
  absl::Status BroadcastBytes(std::string& bytes);

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}

 private:
  const int rank_, size_;
};

// A process by itself.
std::unique_ptr<ProcessGroup> MakeSingleProcess();

// Waits until all processes of `launch` are there, and in every call for the others, up
// to `timeout`. Over TCP: with tensors on the CPU by Gloo, on a GPU by NCCL; a build
// has that which its libtorch brings, UNIMPLEMENTED names it. UNAVAILABLE: some process
// did not come.
absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinProcessGroup(
    const Launch& launch, bool on_gpu, std::chrono::seconds timeout);

}  // namespace mnemon
