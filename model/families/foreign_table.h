// SPDX-License-Identifier: MIT
// The table of foreign families. Each has one line here and is defined in its own file
// of this folder.
#pragma once

#include "model/families/foreign.h"

#define MNEMON_FOREIGN_FAMILIES(family)                                               \
  family(HfLlama) family(HfQwen2) family(HfQwen3) family(HfSmolLm3) family(HfMistral) \
      family(HfGemma3Text) family(HfGpt2)

namespace mnemon {

#define MNEMON_DECLARE_FAMILY(name) ForeignFamily name();
MNEMON_FOREIGN_FAMILIES(MNEMON_DECLARE_FAMILY)
#undef MNEMON_DECLARE_FAMILY

}  // namespace mnemon
