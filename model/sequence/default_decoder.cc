// SPDX-License-Identifier: MIT
// Every token is one Forward with a batch of one, on tensors copied from the arena and
// back, on one core: the same operations on the same numbers for any other contents of
// the step and any split of a prompt.
#include "model/sequence/default_decoder.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/InferenceMode.h>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/kernels.h"
#include "model/sequence/device.h"
#include "model/sequence/runtime.h"

namespace mnemon {
namespace {

constexpr int kDecoderRevision = 1;

// Copies rows [first, first + count) of a growing entry; the rows of a block are
// contiguous.
void ReadRows(const StateArena& arena, int32_t slot, int entry, int64_t first,
              int64_t count, float* out) {
  const int64_t row = arena.spec().entries[entry].elements();
  for (int64_t p = first; p < first + count;) {
    const int64_t end =
        std::min(first + count, (p / kBlockPositions + 1) * kBlockPositions);
    std::memcpy(out, arena.Row(slot, entry, p), (end - p) * row * sizeof(float));
    out += (end - p) * row;
    p = end;
  }
}

void WriteRows(StateArena& arena, int32_t slot, int entry, int64_t first, int64_t count,
               const float* in) {
  const int64_t row = arena.spec().entries[entry].elements();
  for (int64_t p = first; p < first + count; ++p, in += row) {
    std::memcpy(arena.Row(slot, entry, p), in, row * sizeof(float));
  }
}

// The state of `slot` at `position` as a carry with a batch of one, on `device`.
Carry ReadCarry(const StateArena& arena, int32_t slot, int64_t position,
                at::Device device) {
  Carry carry{.position = position, .tensors = {}};
  const auto& entries = arena.spec().entries;
  for (int i = 0; position > 0 && i < static_cast<int>(entries.size()); ++i) {
    const StateEntry& entry = entries[i];
    const int64_t first = FirstVisible(entry, position);
    std::vector<int64_t> shape = {1};
    if (entry.growth != Growth::kFixed) shape.push_back(position - first);
    shape.insert(shape.end(), entry.shape.begin(), entry.shape.end());
    at::Tensor tensor = at::empty(shape);
    float* out = tensor.data_ptr<float>();
    if (entry.growth == Growth::kFixed) {
      std::memcpy(out, arena.Fixed(slot, i), entry.elements() * sizeof(float));
    } else {
      ReadRows(arena, slot, i, first, position - first, out);
    }
    carry.tensors.push_back(tensor.to(device));
  }
  return carry;
}

// Writes what one token has changed: fixed entries and the last row of growing ones.
// NonFiniteState if it is not finite.
absl::Status WriteCarry(const Carry& carry, StateArena& arena, int32_t slot) {
  const auto& entries = arena.spec().entries;
  for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
    const int64_t elements = entries[i].elements();
    const bool fixed = entries[i].growth == Growth::kFixed;
    at::Tensor values = carry.tensors[i];
    if (!fixed) values = values.narrow(1, values.size(1) - 1, 1);
    values = values.to(at::kCPU).contiguous();
    const float* from = values.data_ptr<float>();
    if (!AllFinite({from, static_cast<size_t>(elements)})) return NonFiniteState();
    float* out = fixed ? arena.Fixed(slot, i) : arena.Row(slot, i, carry.position - 1);
    std::memcpy(out, from, elements * sizeof(float));
  }
  return absl::OkStatus();
}

class DefaultDecoder final : public Decoder {
 public:
  // `owned`: null, or the model.
  DefaultDecoder(const Model& model, std::unique_ptr<const Model> owned)
      : owned_(std::move(owned)),
        model_(model),
        device_(DeviceOf(model)),
        numerics_id_(StrCat("default/fp32/", DeviceClass(device_), "/torch-",
                            TensorLibraryVersion(), "/r", kDecoderRevision)) {}

  const ModelDescription& model() const override { return model_.description(); }
  const StateSpec& spec() const override { return model_.carry_spec(); }
  const std::string& numerics_id() const override { return numerics_id_; }
  int64_t weight_bytes() const override { return weight_bytes_; }

  absl::Status Submit(std::span<const Segment> segments, StateArena& arena,
                      float* logits) override {
    MNEMON_RETURN_IF_ERROR(CheckSegments(segments, model().vocab, arena));
    std::vector<SavedFixed> before(segments.size());  // to restore on error
    for (size_t i = 0; i < segments.size(); ++i) {
      before[i] = arena.saved().SaveFixed(segments[i].slot);
    }
    absl::Status status = CatchOutOfMemory({}, [&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(ReserveAll(segments, arena));
      return ComputeAll(segments, arena, logits);
    });
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& segment = segments[i];
      if (status.ok()) {
        arena.Advance(segment.slot, static_cast<int64_t>(segment.tokens.size()));
      } else {
        arena.Truncate(segment.slot, segment.position);  // frees reserved blocks
        if (!before[i].empty()) {
          arena.saved().RestoreFixed(segment.slot, before[i], segment.position);
        }
      }
      arena.saved().Drop(before[i]);
    }
    return status;
  }

  absl::Status Import(int64_t position, const TensorViews& carry, StateArena& arena,
                      int32_t slot) override {
    MNEMON_RETURN_IF_ERROR(BeginImport(position, carry, spec(), arena, slot));
    if (!std::ranges::all_of(carry, AllFinite, &TensorView::values)) {
      arena.Reset(slot);
      return NonFiniteState();
    }
    const auto& entries = spec().entries;
    for (int i = 0; i < static_cast<int>(carry.size()); ++i) {
      const StateEntry& entry = entries[i];
      const int64_t first = FirstVisible(entry, position);
      if (entry.growth == Growth::kFixed) {
        std::memcpy(arena.Fixed(slot, i), carry[i].data,
                    entry.elements() * sizeof(float));
      } else {
        WriteRows(arena, slot, i, first, position - first, carry[i].data);
      }
    }
    arena.Advance(slot, position - arena.length(slot));
    arena.SetFloor(slot, position);
    return absl::OkStatus();
  }

 private:
  static absl::Status ReserveAll(std::span<const Segment> segments, StateArena& arena) {
    for (const Segment& segment : segments) {
      MNEMON_RETURN_IF_ERROR(
          arena.Reserve(segment.slot, static_cast<int64_t>(segment.tokens.size())));
    }
    return absl::OkStatus();
  }

  absl::Status ComputeAll(std::span<const Segment> segments, StateArena& arena,
                          float* logits) const {
    const SingleThreaded single_threaded;
    return RunTensors([&]() -> absl::Status {
      const c10::InferenceMode inference;
      for (const Segment& segment : segments) {
        MNEMON_RETURN_IF_ERROR(Compute(segment, arena, logits));
      }
      return absl::OkStatus();
    });
  }

  // Computes one segment and advances `logits` past its rows.
  absl::Status Compute(const Segment& segment, StateArena& arena,
                       float*& logits) const {
    int64_t position = segment.position;
    for (size_t i = 0; i < segment.tokens.size(); ++i, ++position) {
      const at::Tensor token = at::full({1, 1}, segment.tokens[i], at::kLong);
      MNEMON_ASSIGN_OR_RETURN(
          const ForwardResult result,
          model_.Forward(token, ReadCarry(arena, segment.slot, position, device_)));
      MNEMON_RETURN_IF_ERROR(WriteCarry(result.carry, arena, segment.slot));
      const bool last = i + 1 == segment.tokens.size();
      if (segment.logits == LogitsMode::kAll ||
          (segment.logits == LogitsMode::kLast && last)) {
        const at::Tensor row = result.logits.to(at::kCPU).contiguous();
        std::memcpy(logits, row.data_ptr<float>(), row.numel() * sizeof(float));
        logits += row.numel();
      }
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<const Model> owned_;
  const Model& model_;
  const at::Device device_;  // device of the weights
  // Not const, for visitors that replace tensors; this one only counts.
  const int64_t weight_bytes_ =
      CountParameters(const_cast<Model&>(model_)) * static_cast<int64_t>(sizeof(float));
  const std::string numerics_id_;
};

}  // namespace

std::unique_ptr<Decoder> MakeDefaultDecoder(const Model& model) {
  return std::make_unique<DefaultDecoder>(model, nullptr);
}

std::unique_ptr<Decoder> MakeDefaultDecoder(std::unique_ptr<const Model> model) {
  const Model& served = *model;
  return std::make_unique<DefaultDecoder>(served, std::move(model));
}

}  // namespace mnemon
