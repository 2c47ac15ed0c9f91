// SPDX-License-Identifier: MIT
#include "tests/fakes/thread_group.h"

#include <barrier>
#include <thread>
#include <vector>

#include <c10/core/GradMode.h>

namespace mnemon {
namespace {

// What the threads show each other.
struct Table {
  explicit Table(int count) : tensors(static_cast<size_t>(count)), barrier(count) {}
  std::vector<at::Tensor> tensors;
  std::barrier<> barrier;
};

class ThreadGroup final : public ProcessGroup {
 public:
  ThreadGroup(int rank, int size, Table& table)
      : ProcessGroup(rank, size), table_(table) {}

  absl::Status Broadcast(int from, at::Tensor tensor) override {
    return Exchange(tensor, [&] {
      if (from != rank()) tensor.copy_(table_.tensors[from]);
    });
  }
  absl::Status AllGather(const at::Tensor& own, at::Tensor all) override {
    return Exchange(own, [&] {
      for (int p = 0; p < size(); ++p) all.select(0, p).copy_(table_.tensors[p]);
    });
  }
  absl::Status AllToAll(const at::Tensor& sent, at::Tensor received) override {
    return Exchange(sent, [&] {
      for (int p = 0; p < size(); ++p) {
        received.select(0, p).copy_(table_.tensors[p].select(0, rank()));
      }
    });
  }

 private:
  absl::Status Exchange(const at::Tensor& own, const std::function<void()>& take) {
    c10::AutoGradMode no_graph(false);
    // What it takes into may be its own tensor.
    table_.tensors[rank()] = own.clone();
    table_.barrier.arrive_and_wait();
    take();
    table_.barrier.arrive_and_wait();
    return absl::OkStatus();
  }

  Table& table_;
};

}  // namespace

void RunAsProcesses(int count, const std::function<void(ProcessGroup&)>& process) {
  Table table(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadGroup group(rank, count, table);
      process(group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace mnemon
