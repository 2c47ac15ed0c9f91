// SPDX-License-Identifier: MIT
// Arguments of a block of a sequence form beside x.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/blocks/dropout_torch.h"

namespace mnemon {

struct BlockCall {
  // The block's entries of the carry before x, as in Carry; none when fresh.
  std::span<const at::Tensor> carried;
  int64_t position = 0;  // of the first token of x
  int64_t kept = 0;      // most rows of the carry after x
  // Receives the entries after x.
  std::vector<at::Tensor>& next;
  Dropout drop;  // of the block's site
};

}  // namespace mnemon
