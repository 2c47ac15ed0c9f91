// SPDX-License-Identifier: MIT
// What a block of a sequence form is given of a call beside x.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/blocks/dropout_torch.h"

namespace mnemon {

struct BlockCall {
  // The entries of the block in the carry before x, as Carry has them; none when fresh.
  std::span<const at::Tensor> carried;
  int64_t position = 0;  // of the first token of x
  int64_t kept = 0;      // rows of the carry behind x, at most
  // Gets those behind x.
  std::vector<at::Tensor>& next;
  Dropout drop;  // of the block's site
};

}  // namespace mnemon
