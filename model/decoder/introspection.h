// SPDX-License-Identifier: MIT
// Introspection of a model at one token: what the step of the token read and wrote.
// Numbers for display: float32, deterministic, but not covered by the numerics_id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/description/description.h"
#include "model/state/state.h"

namespace mnemon {

// The parts of an introspection.
struct IntrospectionFields {
  bool hidden_state = false;
  bool memory_reads = false;
  bool update_norms = false;
  bool state_norms = false;

  bool any() const {
    return hidden_state || memory_reads || update_norms || state_norms;
  }
  bool operator==(const IntrospectionFields&) const = default;
};

// Field names in user interfaces.
struct IntrospectionField {
  std::string_view name;
  bool IntrospectionFields::*field;
};
inline constexpr IntrospectionField kIntrospectionFields[] = {
    {"hidden_state", &IntrospectionFields::hidden_state},
    {"memory_reads", &IntrospectionFields::memory_reads},
    {"update_norms", &IntrospectionFields::update_norms},
    {"state_norms", &IntrospectionFields::state_norms}};
// Names of the fields that are set: "hidden_state, memory_reads, update_norms,
// state_norms".
std::string NamesOf(const IntrospectionFields& fields);

// Attention over the positions that a token saw, which are the same in all layers and
// heads.
struct MemoryReads {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t first_index = 0;     // absolute index of the first position
  int64_t positions = 0;       // 0: none were seen
  std::vector<float> weights;  // [L, H, positions]; sum to 1 per layer and head

  bool operator==(const MemoryReads&) const = default;
};

struct Introspection {
  IntrospectionFields fields;       // wanted fields; the others are empty
  std::vector<float> hidden_state;  // [D], normed: the head's input
  MemoryReads memory_reads;
  // Of fast weights [L, H]: the Frobenius norms of the token's change to W, and of W
  // after it.
  std::vector<float> update_norms;
  std::vector<float> state_norms;

  bool operator==(const Introspection&) const = default;
};

// Memory that it holds.
int64_t BytesOf(const Introspection& introspection);

// Most positions that a token among the first `end` of a session can see.
int64_t MostSeen(const StateSpec& spec, int64_t end);

// Most bytes that an introspection of a token that sees `positions` takes in a message;
// INT64_MAX on overflow.
int64_t IntrospectionBytes(const ModelDescription& model,
                           const IntrospectionFields& fields, int64_t positions);

}  // namespace mnemon
