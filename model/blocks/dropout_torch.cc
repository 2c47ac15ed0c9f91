// SPDX-License-Identifier: MIT
#include "model/blocks/dropout_torch.h"

#include <vector>

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

namespace mnemon {
namespace {

// Masks of one kind: [heads, rows, positions, width].
struct MaskRange {
  MaskPlace first;  // that of the first head, row and position
  int64_t heads, rows, positions, width;
};

at::Tensor MaskHere(const DropoutMask& mask, const MaskRange& range) {
  at::Tensor all =
      at::empty({range.heads, range.rows, range.positions, range.width}, at::kFloat);
  const auto width = static_cast<size_t>(range.width);
  float* to = all.data_ptr<float>();
  MaskPlace place = range.first;
  for (place.head = 0; place.head < range.heads; ++place.head) {
    for (int64_t row = 0; row < range.rows; ++row) {
      place.row = range.first.row + row;
      for (int64_t position = 0; position < range.positions; ++position, to += width) {
        place.position = range.first.position + position;
        mask.Fill(place, {to, width});
      }
    }
  }
  return all;
}

// 64-bit integers hold products of 32-bit words.
constexpr int64_t kWord = 0xFFFFFFFF;

at::Tensor High(const at::Tensor& product) {
  return product.__rshift__(32).bitwise_and(kWord);
}

// The same in the device's own arithmetic.
at::Tensor MaskThere(const DropoutMask& mask, const MaskRange& range,
                     at::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  const int64_t groups = (range.width + DropoutMask::kGroup - 1) / DropoutMask::kGroup;
  const auto along = [&](int64_t first, int64_t count, int64_t dimension) {
    std::vector<int64_t> shape(4, 1);
    shape[dimension] = count;
    return at::arange(first, first + count, options).view(shape);
  };
  const std::vector<int64_t> shape = {range.heads, range.rows, range.positions,
                                      groups * 16};
  const auto site = static_cast<int64_t>(DropoutMask::Site(range.first));
  at::Tensor c0 = along(0, groups * 16, 3).expand(shape);
  at::Tensor c1 = along(range.first.position, range.positions, 2).expand(shape);
  at::Tensor c2 = along(range.first.row, range.rows, 1).expand(shape);
  at::Tensor c3 =
      along(0, range.heads, 0).__lshift__(16).bitwise_xor(site).expand(shape);
  auto key0 = static_cast<uint32_t>(mask.key());
  auto key1 = static_cast<uint32_t>(mask.key() >> 32);
  for (int round = 0; round < 10; ++round) {
    const at::Tensor a = c0 * int64_t{0xD2511F53}, b = c2 * int64_t{0xCD9E8D57};
    c0 = High(b).bitwise_xor(c1).bitwise_xor(int64_t{key0});
    c1 = b.bitwise_and(kWord);
    c2 = High(a).bitwise_xor(c3).bitwise_xor(int64_t{key1});
    c3 = a.bitwise_and(kWord);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  std::vector<at::Tensor> halves;
  for (const at::Tensor& word : {c0, c1, c2, c3}) {
    for (const at::Tensor& half : {word.bitwise_and(0xFFFF), word.__rshift__(16)}) {
      halves.push_back(
          half.view({range.heads, range.rows, range.positions, groups, 16}));
    }
  }
  return at::stack(halves, 4)
      .flatten(3)
      .narrow(3, 0, range.width)
      .ge(static_cast<int64_t>(mask.threshold()))
      .to(at::kFloat)
      .mul_(mask.kept());
}

std::optional<DropoutMask> MaskOf(double p, const std::optional<DropoutKey>& key) {
  if (!key || p == 0.0) return std::nullopt;
  return DropoutMask(p, key->key);
}

}  // namespace

Dropout::Dropout(double p, std::optional<DropoutKey> key, int64_t batch)
    : mask_(MaskOf(p, key)), first_row_(key ? key->first_row : 0), batch_(batch) {}

Dropout Dropout::At(int64_t layer, int64_t position) const {
  Dropout at = *this;
  at.layer_ = layer;
  at.position_ = position;
  return at;
}

at::Tensor Dropout::operator()(const at::Tensor& x, DropoutKind kind) const {
  if (!mask_) return x;
  const bool one_position = x.dim() == 2;
  const MaskRange range = {.first = {.layer = layer_,
                                     .kind = kind,
                                     .row = first_row_,
                                     .position = position_},
                           .heads = x.size(0) / batch_,
                           .rows = batch_,
                           .positions = one_position ? 1 : x.size(1),
                           .width = x.size(-1)};
  const at::Tensor mask =
      x.is_cpu() ? MaskHere(*mask_, range) : MaskThere(*mask_, range, x.device());
  // In bfloat16, 1 / (1 - p) would be off by up to 0.2 %.
  return x * mask.view(x.sizes()).to(at::toOpMathType(x.scalar_type()));
}

}  // namespace mnemon
