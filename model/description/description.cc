// SPDX-License-Identifier: MIT
#include "model/description/description.h"

#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/saturating.h"
#include "base/strings.h"
#include "model/blocks/attention/kernels/calls.h"
#include "model/compute/tensor_names.h"

namespace mnemon {
namespace {

// Limits: a single size, far beyond what is served; and all numbers of a model, far
// below overflow.
constexpr int64_t kMostSize = int64_t{1} << 25;
constexpr int64_t kMostNumbers = int64_t{1} << 40;
constexpr size_t kMostLayers = 1024, kMostSubLayers = 8;

bool Sized(std::initializer_list<int64_t> sizes) {
  for (const int64_t size : sizes) {
    if (size < 0 || size > kMostSize) return false;
  }
  return true;
}

bool Sized(const Attention& a) {
  const RelativePositions* relative = a.relative();
  return Sized({a.heads, a.groups, a.width, a.window.value_or(0)}) &&
         (relative == nullptr ||
          Sized({relative->rows, relative->zero_row, relative->past}));
}
bool Sized(const FastWeights& fast) {
  return Sized({fast.heads, fast.width, fast.map.nu});
}
bool Sized(const FeedForward& feed) { return Sized({feed.hidden}); }

std::vector<std::string> BlockFaults(const ModelDescription& model,
                                     const Attention& attention) {
  std::vector<std::string> faults = FaultsOf(attention, model.context);
  const bool reads_memory = attention.sees == Attention::Sees::kMemory;
  if (reads_memory != model.memory.has_value()) {
    faults.emplace_back(reads_memory ? "attention to a memory that the model lacks"
                                     : "attention to the past beside a memory");
  }
  if (model.whole_sequences) {
    if (attention.relative() != nullptr || attention.window) {
      faults.emplace_back("relative positions or a window over whole sequences");
    }
    if (attention.groups != attention.heads) {
      faults.emplace_back("groups of several heads over whole sequences");
    }
    if (attention.turns() || attention.gated || attention.cap || attention.scale) {
      faults.emplace_back(
          "rotary positions, norms of heads, a gate, a cap or a scale over whole "
          "sequences");
    }
  } else if (attention.sees == Attention::Sees::kAll) {
    faults.emplace_back("attention to what follows, token by token");
  }
  return faults;
}

std::vector<std::string> BlockFaults(const ModelDescription& model,
                                     const FastWeights& fast) {
  std::vector<std::string> faults = FaultsOf(fast);
  if (model.memory) faults.emplace_back("fast weights beside a memory");
  if (model.whole_sequences) faults.emplace_back("fast weights over whole sequences");
  return faults;
}

std::vector<std::string> BlockFaults(const ModelDescription&, const FeedForward& feed) {
  return FaultsOf(feed);
}

void CheckLayer(const ModelDescription& model, int64_t index,
                std::vector<std::string>& faults) {
  const std::vector<SubLayer>& layer = model.layers[static_cast<size_t>(index)];
  const std::string place = StrCat("layer ", index);
  if (layer.empty() || layer.size() > kMostSubLayers) {
    faults.push_back(
        StrCat(place, ": ", layer.size(), " blocks, not 1 to ", kMostSubLayers));
    return;
  }
  std::set<std::string> names;
  for (const SubLayer& sub : layer) {
    const auto add = [&](std::string_view fault) {
      faults.push_back(StrCat(place, ", block ", sub.name, ": ", fault));
    };
    if (sub.name.empty() || sub.name.find('.') != std::string::npos ||
        !names.insert(sub.name).second) {
      add("no name of its own");
    }
    const bool sized =
        std::visit([](const auto& block) { return Sized(block); }, sub.block);
    if (!sized) {
      add(StrCat("a size that is not in 0..", kMostSize));
      continue;
    }
    const bool plain = !sub.behind.stored() && !sub.after.stored() && sub.scale == 1;
    if (!plain && (model.memory || model.whole_sequences)) {
      add("norms after a block, or a scale, in a model with a memory or over whole "
          "sequences");
    }
    if (!std::isfinite(sub.scale)) add("a scale that is not finite");
    for (const Norm& norm : {sub.norm, sub.behind, sub.after}) {
      if (!(norm.eps > 0 && std::isfinite(norm.eps))) add("a norm without an epsilon");
    }
    const auto wrong = std::visit(
        [&](const auto& block) { return BlockFaults(model, block); }, sub.block);
    for (const std::string& fault : wrong) add(fault);
    const auto* attention = std::get_if<Attention>(&sub.block);
    if (attention != nullptr && attention->carries == Attention::Carries::kInputs &&
        (sub.norm.kind != Norm::Kind::kLayer || sub.norm.one_plus)) {
      add("inputs that are carried without a layer norm");
    }
  }
}

// If windows differ between attention blocks, a session keeps rows of its whole
// context.
void CheckWindows(const ModelDescription& model, std::vector<std::string>& faults) {
  std::set<int64_t> reaches;
  bool same = true, plain = true;
  const Attention* const first = FirstBlock<Attention>(model);
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      const auto* one = std::get_if<Attention>(&sub.block);
      if (one == nullptr) continue;
      reaches.insert(one->window.value_or(INT64_MAX));
      same = same && one->whole_segments == first->whole_segments;
      plain = plain && one->window != 0 && one->sees == Attention::Sees::kPast &&
              one->carries == Attention::Carries::kKeys;
    }
  }
  if (reaches.size() > kMostReaches) {
    faults.push_back(
        StrCat(reaches.size(), " different windows, not up to ", kMostReaches));
  }
  if (!same || (reaches.size() > 1 && !plain)) {
    faults.emplace_back(
        "different windows of attention to a memory, with carried inputs, or of "
        "nothing");
  }
  if (reaches.size() > 1 && model.context == StateSpec::kUnlimited) {
    faults.emplace_back("different windows without a context");
  }
}

// All blocks read one list of memories.
void CheckMemory(const ModelDescription& model, std::vector<std::string>& faults) {
  const Attention* first = FirstBlock<Attention>(model);
  if (first == nullptr) {
    faults.emplace_back("a memory that nothing attends to");
    return;
  }
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      const auto* one = std::get_if<Attention>(&sub.block);
      if (one == nullptr) continue;
      if (one->heads != first->heads || one->width != first->width) {
        faults.emplace_back("blocks of different shapes that read one memory");
        return;
      }
    }
  }
  if (model.embedding != Embedding{}) {
    faults.emplace_back(
        "a scaled or positional embedding, or one that drops, "
        "beside a memory");
  }
}

// Weights, and the state of a session at its limit.
Saturating Numbers(const ModelDescription& model) {
  Saturating numbers = 0;
  for (const TensorShape& tensor : TensorsOf(model)) {
    Saturating count = 1;
    for (const int64_t size : tensor.shape) count = count * size;
    numbers += count;
  }
  for (const StateSpec& spec : {StateOf(model).spec, CarryOf(model).spec}) {
    for (const StateEntry& entry : spec.entries) {
      Saturating count = entry.growth == Growth::kFixed ? 1 : entry.capacity;
      for (const int64_t size : entry.shape) count = count * size;
      numbers += count;
    }
  }
  return numbers;
}

absl::Status AllFaults(const std::vector<std::string>& faults) {
  if (faults.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument,
                   StrCat("the model cannot be computed: ", StrJoin(faults, "; ")),
                   {.reason = "INVALID_CONFIG"});
}

bool KeepsState(const SubLayer& sub) {
  return !std::holds_alternative<FeedForward>(sub.block);
}

// Owner of the entries of a sub-layer: "layer0", plus its name if other sub-layers of
// the layer keep state as well.
std::string Owner(const ModelDescription& model, size_t layer, const SubLayer& sub) {
  int64_t keepers = 0;
  for (const SubLayer& other : model.layers[layer]) keepers += KeepsState(other);
  return keepers > 1 ? StrCat("layer", layer, ".", sub.name) : StrCat("layer", layer);
}

bool SharesMemory(const ModelDescription& model) {
  return model.memory && model.memory->shared;
}

// Limits positions to the context if entries do not already do so.
void Limit(const ModelDescription& model, StateSpec& spec) {
  if (spec.max_positions() == StateSpec::kUnlimited) spec.limit = model.context;
}

// Calls add(sub-layer, owner, spec) for all sub-layers that keep state.
template <class Add>
void AddEntries(const ModelDescription& model, DescribedState& state, const Add& add) {
  for (size_t i = 0; i < model.layers.size(); ++i) {
    std::vector<size_t>& first = state.first.emplace_back();
    for (const SubLayer& sub : model.layers[i]) {
      first.push_back(state.spec.entries.size());
      if (KeepsState(sub)) add(sub, Owner(model, i, sub), state.spec);
    }
  }
}

}  // namespace

absl::Status CheckDescription(const ModelDescription& model) {
  std::vector<std::string> faults;
  const auto require = [&](bool holds, std::string fault) {
    if (!holds) faults.push_back(std::move(fault));
  };
  require(model.width >= 1 && model.width <= kMostSize, "no width, or too large a one");
  // Sampling adds weights of up to 2^40 in 64 bits.
  require(model.vocab >= 1 && model.vocab < 1 << 24, "vocab is not in 1..2^24-1");
  require(model.context == StateSpec::kUnlimited ||
              (model.context >= 1 && model.context <= kMostSize),
          "no context, or too large a one");
  require(!model.layers.empty() && model.layers.size() <= kMostLayers,
          StrCat(model.layers.size(), " layers, not 1 to ", kMostLayers));
  require(model.dropout >= 0.0 && model.dropout < 1.0,
          StrCat("dropout ", model.dropout, " is not from 0 to below 1"));
  const bool bounded = model.context != StateSpec::kUnlimited;
  require(bounded || model.embedding.positions == Embedding::Positions::kNone,
          "positions of the embedding without a context");
  require(bounded || !model.whole_sequences, "whole sequences without a context");
  require(!model.head.classifier || (model.head.scale == 1 && !model.head.cap),
          "scaled or capped logits of a classifier");
  require(!model.head.cap || (*model.head.cap > 0 && std::isfinite(*model.head.cap)),
          "a cap of logits that is not a positive number");
  require(model.head.norm.applies(), "a head without a norm");
  require(std::isfinite(model.head.scale) && std::isfinite(model.embedding.scale),
          "a scale that is not finite");
  require(model.head.classifier.has_value() == model.whole_sequences,
          "whole sequences and a classifier go together");
  if (!faults.empty()) return AllFaults(faults);
  for (int64_t i = 0; i < model.depth(); ++i) CheckLayer(model, i, faults);
  CheckWindows(model, faults);
  if (model.memory) CheckMemory(model, faults);
  if (!faults.empty()) return AllFaults(faults);
  if (Numbers(model).value() > kMostNumbers) {
    return AllFaults({"sizes together exceed 2^40 numbers"});
  }
  for (const StateSpec& spec : {StateOf(model).spec, CarryOf(model).spec}) {
    if (absl::Status valid = spec.Validate(); !valid.ok()) {
      faults.emplace_back(valid.message());
      break;
    }
  }
  return AllFaults(faults);
}

std::vector<TensorShape> TensorsOf(const ModelDescription& model) {
  TensorList list;
  AddTensors(model.embedding, model.width, model.vocab, model.context, list);
  if (model.memory) {
    AddTensors(*model.memory, MemoryReader(model), model.width, model.depth(), list);
  }
  for (size_t i = 0; i < model.layers.size(); ++i) {
    for (const SubLayer& sub : model.layers[i]) {
      const std::string base = BaseOf(i, sub);
      list.Norm(base + ".norm", model.width, sub.norm);
      if (const auto* attention = std::get_if<Attention>(&sub.block)) {
        AddTensors(*attention, base, model.width, SharesMemory(model), list);
      } else if (const auto* fast = std::get_if<FastWeights>(&sub.block)) {
        AddTensors(*fast, base, model.width, list);
      } else {
        AddTensors(std::get<FeedForward>(sub.block), base, model.width, list);
      }
      list.Norm(base + ".behind_norm", model.width, sub.behind);
      list.Norm(base + ".after_norm", model.width, sub.after);
    }
  }
  AddTensors(model.head, model.width, model.vocab, list);
  return list.Take();
}

std::vector<TensorShape> StoredTensors(const ModelDescription& model, bool int8) {
  std::vector<TensorShape> stored;
  for (TensorShape& tensor : TensorsOf(model)) {
    tensor.int8 = int8 && tensor.quantises;
    stored.push_back(std::move(tensor));
    const TensorShape& last = stored.back();
    if (!last.int8) continue;
    stored.push_back({.name = names::Scale(last.name), .shape = {last.shape[0]}});
  }
  return stored;
}

DescribedState StateOf(const ModelDescription& model) {
  DescribedState state;
  if (model.whole_sequences) {
    AddEntries(model, state, [](auto&&...) {});
    return state;
  }
  if (SharesMemory(model)) {
    state.memory = 0;
    AddState(*model.memory, MemoryReader(model), model.context, state.spec);
  }
  AddEntries(model, state,
             [&](const SubLayer& sub, const std::string& owner, StateSpec& spec) {
               if (const auto* attention = std::get_if<Attention>(&sub.block)) {
                 AddState(*attention, owner, KeptOf(model), SharesMemory(model), spec);
               } else {
                 AddState(std::get<FastWeights>(sub.block), owner, spec);
               }
             });
  Limit(model, state.spec);
  return state;
}

DescribedState CarryOf(const ModelDescription& model) {
  DescribedState carry;
  if (model.whole_sequences) {
    AddEntries(model, carry, [](auto&&...) {});
    return carry;
  }
  if (model.memory) {
    carry.memory = 0;
    AddCarry(MemoryReader(model), model.width, model.context, carry.spec);
  }
  AddEntries(model, carry,
             [&](const SubLayer& sub, const std::string& owner, StateSpec& spec) {
               if (const auto* attention = std::get_if<Attention>(&sub.block)) {
                 AddCarry(*attention, owner, model.width, KeptOf(model), spec);
               } else {
                 AddCarry(std::get<FastWeights>(sub.block), owner, spec);
               }
             });
  Limit(model, carry.spec);
  return carry;
}

KeptRows KeptOf(const ModelDescription& model) {
  const Attention* const first = FirstBlock<Attention>(model);
  KeptRows kept = {.context = model.context,
                   .ring = first != nullptr && first->window.has_value()};
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      const auto* one = std::get_if<Attention>(&sub.block);
      if (one != nullptr && one->window != first->window) kept.ring = false;
    }
  }
  return kept;
}

std::string BaseOf(size_t layer, const SubLayer& sub) {
  return StrCat("layers.", layer, ".", sub.name);
}

std::vector<std::vector<int64_t>> DropoutSites(const ModelDescription& model) {
  std::vector<std::vector<int64_t>> sites;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    std::vector<int64_t>& of_layer = sites.emplace_back();
    int64_t mixers = 0, feeds = 0;  // of the layer so far; each kind has its own masks
    for (const SubLayer& sub : model.layers[i]) {
      int64_t& before = std::holds_alternative<FeedForward>(sub.block) ? feeds : mixers;
      of_layer.push_back(static_cast<int64_t>(i + kMostLayers * before++));
    }
  }
  return sites;
}

const Attention& MemoryReader(const ModelDescription& model) {
  const Attention* reader = FirstBlock<Attention>(model);
  MNEMON_CHECK(reader != nullptr);
  return *reader;
}

}  // namespace mnemon
