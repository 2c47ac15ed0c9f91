// SPDX-License-Identifier: MIT
// A ProcessGroup on one of libtorch's communication libraries. Included by
// gloo_group.cc or nccl_group.cc alone, whichever the build has.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "base/strings.h"
#include "train/parallel/process_group.h"

namespace mnemon {

// The first line of an exception's text, without the "[file:line] " before it.
inline std::string FirstLine(const std::exception& error) {
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  const size_t place = text.find("] ");
  return text.rfind('[', 0) == 0 && place != std::string::npos ? text.substr(place + 2)
                                                               : text;
}

// Backend: a class of c10d. Tensors go to `device` and back.
template <class Backend>
class C10dGroup final : public ProcessGroup {
 public:
  C10dGroup(const Launch& launch, at::Device device,
            c10::intrusive_ptr<Backend> backend)
      : ProcessGroup(launch.rank, launch.size),
        device_(device),
        backend_(std::move(backend)) {}

  absl::Status Broadcast(int from, at::Tensor tensor) override {
    return Do([&] {
      std::vector<at::Tensor> there = {tensor.to(device_)};
      c10d::BroadcastOptions options;
      options.rootRank = from;
      backend_->broadcast(there, options)->wait();
      if (!there[0].is_same(tensor)) tensor.copy_(there[0]);
    });
  }

  absl::Status AllGather(const at::Tensor& own, at::Tensor all) override {
    return Do([&] {
      const at::Tensor to = all.to(device_);
      std::vector<std::vector<at::Tensor>> parts = {to.unbind(0)};
      std::vector<at::Tensor> from = {own.to(device_)};
      backend_->allgather(parts, from)->wait();
      if (!to.is_same(all)) all.copy_(to);
    });
  }

  absl::Status AllToAll(const at::Tensor& sent, at::Tensor received) override {
    return Do([&] {
      at::Tensor to = received.to(device_), from = sent.to(device_);
      std::vector<int64_t> even;
      backend_->alltoall_base(to, from, even, even)->wait();
      if (!to.is_same(received)) received.copy_(to);
    });
  }

 private:
  template <class Work>
  absl::Status Do(const Work& work) const {
    try {
      work();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return absl::UnavailableError(
          StrCat("contact with another process of the run is lost (this is process ",
                 rank(), " of ", size(), "): ", FirstLine(error)));
    }
  }

  const at::Device device_;
  const c10::intrusive_ptr<Backend> backend_;
};

// `make(store)` joins the processes that meet at `store`.
template <class Make>
absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinC10dGroup(
    const Launch& launch, std::chrono::seconds timeout, at::Device device,
    const Make& make) {
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(launch.port);
    options.isServer = launch.rank == 0;
    options.numWorkers = launch.size;
    options.timeout = timeout;
    const auto store = c10::make_intrusive<c10d::PrefixStore>(
        "mnemon", c10::make_intrusive<c10d::TCPStore>(launch.address, options));
    auto backend = make(store);
    using Backend = typename decltype(backend)::element_type;
    return std::make_unique<C10dGroup<Backend>>(launch, device, std::move(backend));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        StrCat("process ", launch.rank, " of ", launch.size,
               " could not meet the others at ", launch.address, ":", launch.port,
               ", waiting for up to ", timeout.count(), " s: ", FirstLine(error)));
  }
}

}  // namespace mnemon
