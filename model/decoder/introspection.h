// SPDX-License-Identifier: MIT
// A view into a model at one token: what the step of the token read, and what it wrote.
// Numbers to look at: float32, deterministic, but not part of what a numerics_id names.
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

// As users name them.
struct IntrospectionField {
  std::string_view name;
  bool IntrospectionFields::*field;
};
inline constexpr IntrospectionField kIntrospectionFields[] = {
    {"hidden_state", &IntrospectionFields::hidden_state},
    {"memory_reads", &IntrospectionFields::memory_reads},
    {"update_norms", &IntrospectionFields::update_norms},
    {"state_norms", &IntrospectionFields::state_norms}};
// "hidden_state, memory_reads, update_norms, state_norms"; of those that are set.
std::string NamesOf(const IntrospectionFields& fields);

// Attention over the positions that a token saw, the same ones in all layers and heads.
struct MemoryReads {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t first_index = 0;     // absolute, of the first position
  int64_t positions = 0;       // 0: it saw none
  std::vector<float> weights;  // [L, H, positions]; of a layer and head they sum to 1

  bool operator==(const MemoryReads&) const = default;
};

struct Introspection {
  IntrospectionFields fields;       // those that are wanted; the others are empty
  std::vector<float> hidden_state;  // [D], normed: the head's input
  MemoryReads memory_reads;
  // Of fast weights [L, H]: the Frobenius norm of the change that the token made to W,
  // and that of W behind it.
  std::vector<float> update_norms;
  std::vector<float> state_norms;

  bool operator==(const Introspection&) const = default;
};

// That it holds in memory.
int64_t BytesOf(const Introspection& introspection);

// Most positions that a token can see among the first `end` of a session.
int64_t MostSeen(const StateSpec& spec, int64_t end);

// Bytes that an introspection of a token that sees `positions` takes in a message, at
// most; INT64_MAX where they would be beyond that.
int64_t IntrospectionBytes(const ModelDescription& model,
                           const IntrospectionFields& fields, int64_t positions);

}  // namespace mnemon
