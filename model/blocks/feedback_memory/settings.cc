// SPDX-License-Identifier: MIT
#include "model/blocks/feedback_memory/settings.h"

#include "model/compute/tensor_names.h"

namespace mnemon {

void AddTensors(const FeedbackMemory& memory, const Attention& attention, int64_t width,
                int64_t layers, TensorList& list) {
  list.Tensor(names::kMemoryMix, {layers + 1});
  if (!memory.shared) return;
  const int64_t kept = attention.groups * attention.width;
  list.Linear(names::kMemoryKey, kept, width, /*bias=*/false);
  list.Linear(names::kMemoryValue, kept, width, /*bias=*/false);
}

void AddState(const FeedbackMemory& memory, const Attention& attention, int64_t context,
              StateSpec& spec) {
  if (!memory.shared) return;
  Attention pair = attention;
  pair.positions = {};
  AddState(pair, "memory", {.context = context, .ring = pair.window.has_value()},
           /*shared_memory=*/false, spec);
}

void AddCarry(const Attention& attention, int64_t width, int64_t context,
              StateSpec& spec) {
  spec.entries.push_back({.name = "memory",
                          .shape = {width},
                          .growth = attention.window ? Growth::kRing : Growth::kAppend,
                          .capacity = attention.window.value_or(context)});
}

}  // namespace mnemon
