// SPDX-License-Identifier: MIT
#include "tests/server/snapshots/sample_snapshots.h"

#include <algorithm>
#include <random>
#include <string>

namespace mnemon {
namespace {

Snapshot WithIdentities() {
  return {{.model_id = std::string(64, 'a'),
           .numerics_id = "step/fp32/7",
           .architecture = "fast_weights",
           .spec_hash = std::string(64, 'b'),
           .session = R"({"ttl":"60s","stop":["\n","\u00fc"]})"}};
}

void SetRows(SnapshotEntry& entry, int64_t computed) {
  if (entry.growth == Growth::kFixed) return;
  entry.rows = std::min(entry.capacity, computed);
  entry.first_row = computed - entry.rows;
}

// `kind` 0: dense; 1: all one value; 2: zeros with some others.
void FillState(Snapshot& snapshot, int kind, std::mt19937& random) {
  int64_t floats = 0;
  for (const SnapshotEntry& entry : snapshot.entries) floats += entry.floats();
  std::normal_distribution<float> normal;
  snapshot.state.assign(floats, 0.25f);
  for (float& value : snapshot.state) {
    if (kind == 0) value = normal(random);
    if (kind == 2) value = random() % 50 == 0 ? normal(random) : 0.0f;
  }
}

}  // namespace

Snapshot FixedSnapshot(int64_t tokens, int64_t floats) {
  std::mt19937 random(1);
  Snapshot snapshot = WithIdentities();
  for (int64_t t = 0; t < tokens; ++t) {
    snapshot.tokens.push_back(static_cast<int32_t>(random() >> 1));
  }
  if (floats == 0) return snapshot;
  snapshot.computed = tokens;
  snapshot.entries = {{.name = "layer0.weights", .shape = {floats}}};
  FillState(snapshot, 0, random);
  return snapshot;
}

Snapshot GrowingSnapshot(Growth growth, int64_t capacity, int64_t tokens,
                         int64_t computed) {
  std::mt19937 random(2);
  Snapshot snapshot = WithIdentities();
  for (int64_t t = 0; t < tokens; ++t) snapshot.tokens.push_back(random() % 256);
  snapshot.computed = computed;
  snapshot.entries = {
      {.name = "keys", .shape = {2, 3}, .growth = growth, .capacity = capacity},
      {.name = "sums", .shape = {5}},
      {.name = "values", .shape = {4}, .growth = growth, .capacity = capacity}};
  for (SnapshotEntry& entry : snapshot.entries) SetRows(entry, computed);
  FillState(snapshot, 0, random);
  return snapshot;
}

Snapshot RandomSnapshot(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&random](uint32_t end) { return random() % end; };
  Snapshot snapshot = WithIdentities();
  snapshot.session = "{\"text\":\"" + std::string(below(4) * below(2000), 'x') + "\"}";
  const uint32_t vocabulary = below(2) == 0 ? 256 : 1u << 31;
  snapshot.tokens.resize(below(3) * below(3000));
  for (int32_t& token : snapshot.tokens) {
    token = static_cast<int32_t>(below(vocabulary));
  }
  if (below(5) == 0) return snapshot;
  const auto growth = static_cast<Growth>(below(3));
  const int64_t most = static_cast<int64_t>(snapshot.tokens.size());
  snapshot.computed = below(2) == 0 ? most : static_cast<int64_t>(below(most + 1));
  const int64_t capacity =
      growth == Growth::kAppend ? snapshot.computed + 1 + below(9) : 1 + below(2000);
  const uint32_t entries = 1 + below(6);
  for (uint32_t e = 0; e < entries; ++e) {
    SnapshotEntry entry{.name = "entry" + std::to_string(e)};
    for (uint32_t d = below(4); d > 0; --d) entry.shape.push_back(1 + below(4));
    if (below(3) > 0 && growth != Growth::kFixed) {
      entry.growth = growth;
      entry.capacity = capacity;
    } else if (below(4) == 0) {
      entry.shape.push_back(1 + below(3000));
    }
    SetRows(entry, snapshot.computed);
    snapshot.entries.push_back(entry);
  }
  FillState(snapshot, static_cast<int>(below(3)), random);
  return snapshot;
}

}  // namespace mnemon
