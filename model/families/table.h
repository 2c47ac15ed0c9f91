// SPDX-License-Identifier: MIT
// The table of the architectures of our own configuration files. Each has one line here
// and is defined in its own file of this folder.
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
