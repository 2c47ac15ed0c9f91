// SPDX-License-Identifier: MIT
// The table of the architectures of our own configuration files: a line for each, and a
// file of its own in this folder that defines it.
#pragma once

#include "model/families/families.h"

#define MNEMON_FAMILIES(family)                                                \
  family(FeedbackFamily) family(FastWeightsFamily) family(TransformerXlFamily) \
      family(CausalFamily) family(EncoderFamily) family(LlamaFamily)

namespace mnemon {

#define MNEMON_DECLARE_FAMILY(name) Family name();
MNEMON_FAMILIES(MNEMON_DECLARE_FAMILY)
#undef MNEMON_DECLARE_FAMILY

}  // namespace mnemon
