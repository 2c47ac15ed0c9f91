// SPDX-License-Identifier: MIT
#include "model/blocks/attention/settings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/strings.h"

namespace mnemon {
namespace {

// A growing entry of one row per position.
StateEntry RowEntry(const Attention& a, std::string name, std::vector<int64_t> row,
                    const KeptRows& kept, BlockLayout layout) {
  return {.name = std::move(name),
          .shape = std::move(row),
          .growth = kept.ring ? Growth::kRing : Growth::kAppend,
          .capacity = kept.ring ? std::max<int64_t>(1, *a.window) : kept.context,
          .layout = layout};
}

}  // namespace

std::vector<std::string> FaultsOf(const Attention& a, int64_t context) {
  std::vector<std::string> faults;
  const auto require = [&](bool holds, std::string fault) {
    if (!holds) faults.push_back(std::move(fault));
  };
  require(a.heads >= 1 && a.groups >= 1 && a.width >= 1, "no heads, groups or width");
  if (!faults.empty()) return faults;
  require(a.heads % a.groups == 0,
          StrCat(a.groups, " groups that do not divide ", a.heads, " heads"));
  const bool shared = a.groups != a.heads;
  require(!shared || a.sees == Attention::Sees::kPast,
          "groups of several heads in attention to more than the past");
  require(!shared || a.relative() == nullptr,
          "groups of several heads with relative positions");
  require(a.window || context != StateSpec::kUnlimited,
          "neither a window nor a context");
  require(a.sees != Attention::Sees::kAll || !a.window,
          "a window where everything is seen");
  for (const Norm& norm : {a.query_norm, a.key_norm}) {
    require(norm.kind == Norm::Kind::kNone || norm.kind == Norm::Kind::kRms,
            "a norm of heads that is not an RMS norm");
  }
  require(!a.turns() || a.sees == Attention::Sees::kPast,
          "rotary positions or norms of heads in attention to more than the past");
  require(!a.scale || (*a.scale > 0 && std::isfinite(*a.scale)),
          "a scale that is not a positive number");
  require(!a.scale || (a.relative() == nullptr && a.sees == Attention::Sees::kPast),
          "a scale beside relative positions or attention to more than the past");
  require(!a.cap || (*a.cap > 0 && std::isfinite(*a.cap)),
          "a cap of scores that is not a positive number");
  require(!a.cap || (a.relative() == nullptr && !a.alibi() &&
                     a.sees == Attention::Sees::kPast),
          "a cap of scores beside position terms or attention to more than the past");
  require(!a.gated || a.sees == Attention::Sees::kPast,
          "a gate on attention to more than the past");
  require(a.gated || !a.biases.gate, "a bias of a gate that is not there");
  if (const Rotary* rotary = a.rotary()) {
    for (std::string& fault : FaultsOf(*rotary, a.width)) {
      faults.push_back(std::move(fault));
    }
    require(context != StateSpec::kUnlimited, "rotary positions without a context");
  }
  const bool inputs = a.carries == Attention::Carries::kInputs;
  require(!inputs || (!a.turns() && !a.gated && !a.cap),
          "inputs are carried with rotary positions, norms, gates or caps");
  require(!inputs || (a.sees == Attention::Sees::kPast && a.window),
          "inputs are carried in a window of the past alone");
  require(!a.whole_segments || (inputs && a.relative() != nullptr),
          "whole segments without carried inputs and relative positions");
  const RelativePositions* relative = a.relative();
  const bool memory = a.sees == Attention::Sees::kMemory;
  require(relative != nullptr || !memory, "a memory without relative positions");
  require(!memory || a.window != 0, "a memory of which nothing is seen");
  if (relative == nullptr) return faults;
  require(a.sees != Attention::Sees::kAll,
          "relative positions where everything is seen");
  require(!relative->tied || memory, "tied positions outside of a memory");
  // A memory is at distance 1 at least.
  require(relative->rows >= 1 &&
              (memory ? relative->zero_row == relative->rows
                      : relative->zero_row >= 0 && relative->zero_row < relative->rows),
          "position tables without their row of distance 0");
  require(relative->past >= 0 && relative->past <= relative->rows,
          "more past than rows of position tables");
  require(a.window.value_or(context - 1) <= relative->farthest(),
          StrCat("a query reaches beyond its ", relative->farthest(),
                 " relative positions"));
  return faults;
}

void AddTensors(const Attention& a, const std::string& base, int64_t width,
                bool shared_memory, TensorList& list) {
  const int64_t all = a.heads * a.width, kept = a.groups * a.width;
  list.Linear(base + ".query", all, width, a.biases.query);
  if (!shared_memory) {
    list.Linear(base + ".key", kept, width, a.biases.key);
    list.Linear(base + ".value", kept, width, a.biases.value);
  }
  if (a.gated) list.Linear(base + ".gate", all, width, a.biases.gate);
  list.Norm(base + ".query_norm", a.width, a.query_norm);
  list.Norm(base + ".key_norm", a.width, a.key_norm);
  if (const RelativePositions* relative = a.relative()) {
    list.Tensor(base + ".relative_key", {relative->rows, a.heads, a.width});
    if (!relative->tied)
      list.Tensor(base + ".relative_bias", {relative->rows, a.heads});
    list.Tensor(base + ".query_bias", {a.heads, a.width});
  }
  list.Linear(base + ".output", width, all, a.biases.output, {.slice = a.width});
}

void AddState(const Attention& a, const std::string& owner, const KeptRows& kept,
              bool shared_memory, StateSpec& spec) {
  if (!shared_memory) {
    const std::vector<int64_t> row = {a.groups, a.width};
    spec.entries.push_back(
        RowEntry(a, owner + ".key", row, kept, BlockLayout::kColumns));
    spec.entries.push_back(
        RowEntry(a, owner + ".value", row, kept, BlockLayout::kHeadRows));
  }
  if (a.relative() != nullptr) {
    spec.entries.push_back(
        RowEntry(a, owner + ".fold", {a.heads}, kept, BlockLayout::kColumns));
  }
}

void AddCarry(const Attention& a, const std::string& owner, int64_t width,
              const KeptRows& kept, StateSpec& spec) {
  if (a.sees == Attention::Sees::kMemory || (kept.ring && a.window == 0)) return;
  const auto add = [&](const char* part, std::vector<int64_t> row) {
    spec.entries.push_back(
        RowEntry(a, owner + part, std::move(row), kept, BlockLayout::kRows));
  };
  if (a.carries == Attention::Carries::kInputs) return add(".mem", {width});
  add(".key", {a.groups, a.width});
  add(".value", {a.groups, a.width});
}

}  // namespace mnemon
