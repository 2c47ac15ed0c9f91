// SPDX-License-Identifier: MIT
#include "train/fit/batch_share.h"

#include <algorithm>
#include <iterator>
#include <span>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "base/status_macros.h"
#include "train/parallel/flat_operations.h"

namespace mnemon {
namespace {

// Calls each(begin, end) for every run of consecutive blocks, in elements of a flat
// buffer.
template <class Each>
void ForRuns(std::span<const int64_t> blocks, int64_t size, const Each& each) {
  for (size_t i = 0; i < blocks.size();) {
    const int64_t first = blocks[i];
    int64_t end = first;
    while (i < blocks.size() && blocks[i] == end) ++i, ++end;
    each(first * kFlatBlock, std::min(size, end * kFlatBlock));
  }
}

// The sum of the given rows of `parts` [n, ...], in the order of the tree.
at::Tensor TreeSum(const at::Tensor& parts, std::span<const int> rows) {
  if (rows.size() == 1) return parts.select(0, rows[0]);
  const auto middle =
      static_cast<size_t>(MiddleOf({0, static_cast<int64_t>(rows.size())}));
  at::Tensor sum = TreeSum(parts, rows.first(middle));
  return sum.add_(TreeSum(parts, rows.subspan(middle)));
}

}  // namespace

Shards BatchShare::ShardsOf(int64_t rows, int process) const {
  const int64_t count = std::min(shards_, rows);
  return {
      .sequences = rows, .count = count, .own = NodeOf(count, process, group_.size())};
}

std::vector<int> BatchShare::ProcessesOf(int64_t rows) const {
  std::vector<int> processes;
  for (int p = 0; p < group_.size(); ++p) {
    if (ShardsOf(rows, p).own.size() > 0) processes.push_back(p);
  }
  return processes;
}

absl::StatusOr<std::vector<Evaluation>> BatchShare::Join(
    const std::vector<Evaluation>& own, const std::vector<int64_t>& rows) const {
  if (group_.size() == 1) return own;
  const auto count = static_cast<int64_t>(own.size());
  at::Tensor sent = at::empty({count, 3}, at::kDouble);
  double* to = sent.data_ptr<double>();
  for (const Evaluation& found : own) {
    *to++ = static_cast<double>(found.positions);
    *to++ = static_cast<double>(found.correct);
    *to++ = found.nats;
  }
  at::Tensor all = at::empty({group_.size(), count, 3}, at::kDouble);
  MNEMON_RETURN_IF_ERROR(group_.AllGather(sent, all));
  std::vector<Evaluation> joined;
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor sum = TreeSum(all.select(1, i), ProcessesOf(rows[i]));
    const double* const from = sum.data_ptr<double>();
    joined.push_back({.positions = static_cast<int64_t>(from[0]),
                      .correct = static_cast<int64_t>(from[1]),
                      .nats = from[2]});
  }
  return joined;
}

absl::StatusOr<at::Tensor> BatchShare::JoinRows(const at::Tensor& own,
                                                int64_t rows) const {
  if (group_.size() == 1) return own;
  std::vector<int64_t> shape = own.sizes().vec();
  shape[0] = rows;
  at::Tensor all = at::empty(shape, own.options());
  for (const int p : ProcessesOf(rows)) {
    const Part part = ShardsOf(rows, p).OwnSequences();
    at::Tensor to = all.narrow(0, part.begin, part.size());
    if (p == group_.rank()) to.copy_(own);
    MNEMON_RETURN_IF_ERROR(group_.Broadcast(p, to));
  }
  return all;
}

absl::Status BatchShare::JoinBlocks(int64_t count, std::vector<int64_t>& blocks) const {
  at::Tensor own = at::zeros({count}, at::kByte);
  for (const int64_t block : blocks) own.data_ptr<uint8_t>()[block] = 1;
  at::Tensor all = at::empty({group_.size(), count}, at::kByte);
  MNEMON_RETURN_IF_ERROR(group_.AllGather(own, all));
  blocks.clear();
  const uint8_t* const written = all.data_ptr<uint8_t>();
  for (int64_t b = 0; b < count; ++b) {
    bool any = false;
    for (int p = 0; p < group_.size(); ++p) any |= written[p * count + b] != 0;
    if (any) blocks.push_back(b);
  }
  return absl::OkStatus();
}

absl::Status BatchShare::JoinSums(at::Tensor sums, std::vector<int64_t>& blocks,
                                  int64_t rows) const {
  if (group_.size() == 1) return absl::OkStatus();
  c10::AutoGradMode no_graph(false);
  const int64_t size = sums.numel(), processes = group_.size();
  const std::vector<int64_t> own = blocks;
  MNEMON_RETURN_IF_ERROR(JoinBlocks((size + kFlatBlock - 1) / kFlatBlock, blocks));
  // Left over from the previous batch: blocks that only other processes have written.
  std::vector<int64_t> others;
  std::set_difference(blocks.begin(), blocks.end(), own.begin(), own.end(),
                      std::back_inserter(others));
  ForRuns(others, size, [&](int64_t begin, int64_t end) {
    sums.narrow(0, begin, end - begin).zero_();
  });
  // Each process gets a slice of the written blocks from all, adds it and sends it to
  // all.
  const int64_t slice =
      (static_cast<int64_t>(blocks.size()) + processes - 1) / processes * kFlatBlock;
  at::Tensor sent = at::empty({processes, slice}, sums.options());
  at::Tensor received = at::empty_like(sent);
  const at::Tensor flat = sent.view(-1);
  int64_t at = 0;
  ForRuns(blocks, size, [&](int64_t begin, int64_t end) {
    flat.narrow(0, at, end - begin).copy_(sums.narrow(0, begin, end - begin));
    at += end - begin;
  });
  MNEMON_RETURN_IF_ERROR(group_.AllToAll(sent, received));
  MNEMON_RETURN_IF_ERROR(group_.AllGather(TreeSum(received, ProcessesOf(rows)), sent));
  at = 0;
  ForRuns(blocks, size, [&](int64_t begin, int64_t end) {
    sums.narrow(0, begin, end - begin).copy_(flat.narrow(0, at, end - begin));
    at += end - begin;
  });
  return absl::OkStatus();
}

}  // namespace mnemon
