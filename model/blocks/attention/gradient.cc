// SPDX-License-Identifier: MIT
#include "model/blocks/attention/gradient.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "model/blocks/attention/alibi.h"

namespace mnemon {

namespace {

AttentionOptions OptionsOf(const Attention& a, bool whole, int64_t context, bool ring) {
  constexpr int64_t kAny = int64_t{1} << 40;
  AttentionOptions options;
  options.causal = a.sees == Attention::Sees::kPast;
  options.reach = a.window && !a.whole_segments ? *a.window : std::min(context, kAny);
  options.most_keys = ring ? kAny : context;
  options.scale = a.scale.value_or(1.0 / std::sqrt(static_cast<double>(a.width)));
  options.cap = a.cap.value_or(0);
  if (a.alibi()) options.slopes = AlibiSlopes(a.heads);
  if (const RelativePositions* relative = a.relative()) {
    options.zero_row = relative->zero_row;
    if (a.whole_segments) options.most_keys = relative->farthest() + 1;
  }
  if (whole) return options;
  options.memory = a.carries == Attention::Carries::kInputs ? AttentionMemory::kInputs
                                                            : AttentionMemory::kKeys;
  options.most_memory = ring ? *a.window : context;
  return options;
}

}  // namespace

template <class Real>
AttentionBlock<Real>::AttentionBlock(const Attention& attention,
                                     const BlockPlace& place, bool whole,
                                     int64_t context, bool ring,
                                     const FlatLayout& layout,
                                     std::shared_ptr<AttentionBlockRows<Real>> shared)
    : options_(OptionsOf(attention, whole, context, ring)),
      shared_(std::move(shared)),
      site_(place.site),
      width_(place.width),
      heads_(attention.heads),
      sharing_(attention.sharing()),
      head_width_(attention.width),
      all_(heads_ * head_width_),
      kept_(attention.groups * head_width_),
      norm_(layout, place),
      query_(layout, place.base + ".query", all_, width_),
      key_(layout, place.base + ".key", kept_, width_),
      value_(layout, place.base + ".value", kept_, width_),
      output_(layout, place.base + ".output", width_, all_),
      gate_(attention, place.base, width_, layout),
      turns_{
          {attention, attention.query_norm, place.base + ".query_norm", heads_, layout},
          {attention, attention.key_norm, place.base + ".key_norm", attention.groups,
           layout}},
      end_(layout, place) {
  for (LinearMap<Real>* map : {&query_, &key_, &value_, &output_}) map->Reserve();
  if (attention.relative() == nullptr) return;
  tables_.emplace(attention, place.base, options_.zero_row + 1, layout);
}

template <class Real>
absl::Status AttentionBlock<Real>::Check(const PassStep<Real>& step,
                                         int64_t position) const {
  const int64_t before = std::min(position, options_.most_memory);
  if (before + step.time <= options_.most_keys) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      StrCat(step.time, " tokens after ", before,
             " that are remembered; the model has positions for ", options_.most_keys),
      {.reason = "CONTEXT_LIMIT"});
}

template <class Real>
int64_t AttentionBlock<Real>::carry_entries() const {
  if (options_.most_memory == 0) return 0;
  return options_.memory == AttentionMemory::kKeys     ? 2
         : options_.memory == AttentionMemory::kInputs ? 1
                                                       : 0;
}

template <class Real>
AttentionShape AttentionBlock<Real>::Shape(const PassStep<Real>& step) const {
  const int64_t keys = memory_.count + step.time;
  return {.queries = step.time,
          .memory = memory_.count,
          .width = head_width_,
          .causal = options_.causal,
          .reach = std::min(options_.reach, keys)};
}

template <class Real>
Part AttentionBlock<Real>::TableRows(const PassStep<Real>& step) const {
  const int64_t zero = options_.zero_row;
  return {zero - Shape(step).farthest(), zero + 1};
}

template <class Real>
void AttentionBlock<Real>::Reserve(const PassStep<Real>& step,
                                   std::span<const CarryEntry> carry) {
  memory_.count = carry.empty() ? 0 : carry[0].count;
  const auto rows_of = [&](size_t entry, int64_t width) {
    return RowsOfReal<const Real>{carry[entry].values.data(), width};
  };
  if (memory_.count > 0 && options_.memory == AttentionMemory::kKeys) {
    memory_.given_keys = rows_of(0, kept_);
    memory_.given_values = rows_of(1, kept_);
  } else if (memory_.count > 0) {
    memory_.inputs = rows_of(0, width_);
  }
  const int64_t rows = step.rows();
  norm_.Reserve(rows);
  turns_.query.Reserve(step);
  turns_.key.Reserve(step);
  end_.Reserve(rows);
  for (Slab<Real>* slab : {&queries_, &mixed_}) slab->Reserve(rows, all_);
  gate_.Reserve(step);
  for (Slab<Real>* slab : {&keys_, &values_}) slab->Reserve(rows, kept_);
  softmax_.resize(static_cast<size_t>(rows * heads_));
  AttentionBlockRows<Real>& g = *shared_;
  for (Slab<Real>* slab : {&g.dmixed, &g.dquery}) slab->Reserve(rows, all_);
  for (Slab<Real>* slab : {&g.dkey, &g.dvalue}) slab->Reserve(rows, kept_);
  g.dnormed.Reserve(rows, width_);
  if (end_.needs_room(step.dropout.has_value())) g.dout.Reserve(rows, width_);
  if (tables_) {
    g.dbiased_query.Reserve(rows, all_);
    const int64_t tables = step.sequences * TableRows(step).size();
    g.drelative.Reserve(tables, all_);
    g.drelative_bias.Reserve(tables, heads_);
  }
  if (!projects_memory()) return;
  const int64_t memory = step.sequences * memory_.count;
  for (Slab<Real>* slab : {&memory_.standard, &g.memory_normed}) {
    slab->Reserve(memory, width_);
  }
  for (Slab<Real>* slab :
       {&memory_.keys, &memory_.values, &g.dmemory_key, &g.dmemory_value}) {
    slab->Reserve(memory, kept_);
  }
}

template <class Real>
void AttentionBlock<Real>::Pack(const PassStep<Real>& step, int worker, int workers) {
  gate_.Pack(step, worker, workers);
  for (LinearMap<Real>* map : {&query_, &key_, &value_, &output_}) {
    map->Pack(step.weights, step.gradients != nullptr, worker, workers);
  }
  if (worker == 0 && step.gradients != nullptr && !projects_memory()) {
    std::fill_n(step.gradients + more_sums_, more_sums(), Real{0});
  }
  if (!tables_) return;
  tables_->Load(step.weights, PartOf(heads_, worker, workers), TableRows(step));
  if (worker == 0 && step.gradients != nullptr) {
    tables_->BeginSums(TableRows(step), step.gradients);
  }
}

template <class Real>
AttentionHead<Real> AttentionBlock<Real>::Head(const PassStep<Real>& step,
                                               int64_t sequence, int64_t head) {
  const int64_t row = sequence * step.time, column = head * head_width_;
  const int64_t kept = head / sharing_ * head_width_;
  AttentionHead<Real> out = {
      .shape = Shape(step),
      .scale = static_cast<Real>(options_.scale),
      .slope =
          options_.slopes.empty() ? Real{0} : static_cast<Real>(options_.slopes[head]),
      .cap = static_cast<Real>(options_.cap),
      .relative = tables_ ? &tables_->head(head) : nullptr,
      .dropout = {},
      .query = queries_.rows(row, column),
      .memory_key = {},
      .memory_value = {},
      .key = keys_.rows(row, kept),
      .value = values_.rows(row, kept),
      .out = mixed_.rows(row, column),
      .moments = softmax_.data() + (sequence * heads_ + head) * step.time};
  if (memory_.count > 0) {
    const int64_t first = sequence * memory_.count;
    const bool projected = projects_memory();
    out.memory_key = projected ? memory_.keys.rows(first, kept)
                               : memory_.given_keys.from(first, kept);
    out.memory_value = projected ? memory_.values.rows(first, kept)
                                 : memory_.given_values.from(first, kept);
  }
  if (step.dropout) {
    out.dropout = {.mask = &*step.dropout,
                   .place = {.layer = site_,
                             .kind = DropoutKind::kAttention,
                             .head = head,
                             .row = step.first_row + sequence}};
  }
  return out;
}

template <class Real>
void AttentionBlock<Real>::Project(const PassStep<Real>& step, Part rows, Part memory,
                                   RowsOfReal<const Real> x) {
  const auto project = [&](const LinearMap<Real>& map, Part some,
                           RowsOfReal<const Real> in, Slab<Real>& to) {
    map.Forward(
        step.weights,
        {.rows = some.size(), .in = in, .from = {}, .out = to.rows(some.begin)});
  };
  norm_.Forward(step.weights, rows, x);
  const RowsOfReal<const Real> z = norm_.rows(rows.begin, x);
  project(query_, rows, z, queries_);
  project(key_, rows, z, keys_);
  project(value_, rows, z, values_);
  gate_.Project(step, rows, z);
  turns_.query.Forward(step, rows, queries_.rows());
  turns_.key.Forward(step, rows, keys_.rows());
  if (!projects_memory()) return;
  NormPass<Real> norm = norm_.map().Pass(step.weights, memory.size(),
                                         memory_.inputs.from(memory.begin), nullptr);
  if (step.gradients != nullptr) norm.standard = memory_.standard.rows(memory.begin);
  const RowsOfReal<Real> normed = shared_->memory_normed.rows(memory.begin);
  NormForward(norm, normed);
  project(key_, memory, normed, memory_.keys);
  project(value_, memory, normed, memory_.values);
}

template <class Real>
void AttentionBlock<Real>::Mix(const PassStep<Real>& step, Part groups,
                               PassScratch<Real>& scratch) {
  auto& own = scratch.template Of<AttentionScratch<Real>>();
  for (int64_t i = groups.begin * sharing_; i < groups.end * sharing_; ++i) {
    AttentionForward(Head(step, i / heads_, i % heads_), own);
  }
}

template <class Real>
void AttentionBlock<Real>::Finish(const PassStep<Real>& step, Part rows,
                                  RowsOfReal<const Real> x, RowsOfReal<Real> out,
                                  PassScratch<Real>& scratch) {
  gate_.Forward(rows, mixed_.rows());
  end_.Forward(step, Team::Alone(), output_,
               {.layer = site_, .kind = DropoutKind::kAttentionOutput}, rows,
               gate_.Outputs(mixed_.rows()), x, out, scratch);
}

template <class Real>
void AttentionBlock<Real>::FinishBackward(const PassStep<Real>& step, Part rows,
                                          RowsOfReal<const Real> dout,
                                          PassScratch<Real>& scratch) {
  end_.Backward(step, Team::Alone(), output_,
                {.layer = site_, .kind = DropoutKind::kAttentionOutput}, rows, dout,
                shared_->dout, shared_->dmixed.rows(), scratch);
  gate_.Backward(rows, mixed_.rows(), shared_->dmixed.rows());
}

template <class Real>
void AttentionBlock<Real>::MixBackward(const PassStep<Real>& step, Part groups,
                                       PassScratch<Real>& scratch) {
  AttentionBlockRows<Real>& g = *shared_;
  const int64_t distances = tables_ ? TableRows(step).size() : 0;
  auto& own = scratch.template Of<AttentionScratch<Real>>();
  for (int64_t i = groups.begin * sharing_; i < groups.end * sharing_; ++i) {
    const int64_t b = i / heads_, h = i % heads_;
    const int64_t row = b * step.time, column = h * head_width_;
    const int64_t kept = h / sharing_ * head_width_;
    AttentionGradients<Real> to = {.dout = g.dmixed.rows(row, column),
                                   .dquery = g.dquery.rows(row, column),
                                   .dmemory_key = {},
                                   .dmemory_value = {},
                                   .dkey = g.dkey.rows(row, kept),
                                   .dvalue = g.dvalue.rows(row, kept),
                                   .adds = h % sharing_ > 0,
                                   .dbiased_query = {},
                                   .drelative = {},
                                   .drelative_bias = {}};
    if (projects_memory()) {
      to.dmemory_key = g.dmemory_key.rows(b * memory_.count, kept);
      to.dmemory_value = g.dmemory_value.rows(b * memory_.count, kept);
    }
    if (tables_) {
      to.dbiased_query = g.dbiased_query.rows(row, column);
      to.drelative = g.drelative.rows(b * distances, column);
      to.drelative_bias = g.drelative_bias.rows(b * distances, h);
      for (int64_t d = 0; d < distances; ++d) {
        std::fill_n(to.drelative.row(d), head_width_, Real{0});
      }
    }
    AttentionBackward(Head(step, b, h), to, own);
  }
}

template <class Real>
void AttentionBlock<Real>::ProjectBackward(const PassStep<Real>& step, Part rows,
                                           RowsOfReal<const Real> x,
                                           RowsOfReal<const Real> dout,
                                           RowsOfReal<Real> dx) {
  AttentionBlockRows<Real>& g = *shared_;
  const int64_t first = rows.begin;
  const RowsOfReal<Real> dnormed = g.dnormed.rows(first);
  const auto add = [&](const LinearMap<Real>& map, Slab<Real>& dy,
                       RowsOfReal<const Real> from) {
    map.Backward(
        {.rows = rows.size(), .in = dy.rows(first), .from = from, .out = dnormed});
  };
  turns_.query.Backward(step, rows, g.dquery.rows());
  turns_.key.Backward(step, rows, g.dkey.rows());
  add(query_, g.dquery, {});
  add(key_, g.dkey, dnormed);
  add(value_, g.dvalue, dnormed);
  gate_.ProjectBackward(rows, dnormed);
  norm_.Backward(step.weights, rows, x, g.dnormed.rows(), end_.OfSum(dout), dx);
}

template <class Real>
void AttentionBlock<Real>::AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
                                   RowsOfReal<const Real> dout,
                                   GradientJobs<Real>& jobs) {
  AttentionBlockRows<Real>& g = *shared_;
  const RowLayout layout = step.layout();
  const auto add = [&](const LinearMap<Real>& map, RowsOfReal<const Real> dy,
                       RowsOfReal<const Real> in) {
    map.AddJobs({{layout, dy.data, dy.stride, in.data, in.stride}}, step.shards,
                step.gradients, jobs);
  };
  add(output_, end_.OfMap(step, dout, g.dout), gate_.Outputs(mixed_.rows()));
  end_.AddJobs(step, dout, jobs);
  const RowsOfReal<const Real> z = norm_.rows(0, x);
  add(query_, g.dquery.rows(), z);
  add(key_, g.dkey.rows(), z);
  add(value_, g.dvalue.rows(), z);
  gate_.AddJobs(step, z, jobs);
  norm_.AddJobs(step, x, g.dnormed.rows(), jobs);
  turns_.query.AddJobs(step, jobs);
  turns_.key.AddJobs(step, jobs);
  const auto sum_memory = [&](int projection, RowsOfReal<const Real> dy) {
    const RowLayout memory = {.sequences = step.sequences, .each = memory_.count};
    const RowsOfReal<const Real> in = memory_.standard.rows();
    const NormedSums<Real> to = MemorySums(step.gradients, projection);
    jobs.Add(WeightGradientCall<Real>{
        .outputs = kept_,
        .inputs = width_,
        .parts = {{memory, dy.data, dy.stride, in.data, in.stride}},
        .shards = step.shards,
        .out = to.outer});
    jobs.Add(VectorGradientCall<Real>{.width = kept_,
                                      .parts = {{.layout = memory, .dz = dy, .x = {}}},
                                      .shards = step.shards,
                                      .bias = to.dy});
  };
  if (projects_memory()) {
    sum_memory(0, g.dmemory_key.rows());
    sum_memory(1, g.dmemory_value.rows());
  }
  if (!tables_) return;
  tables_->AddJobs({.queries = layout,
                    .dquery_bias = g.dbiased_query.rows(),
                    .dkeys = g.drelative.rows(),
                    .dbiases = g.drelative_bias.rows()},
                   TableRows(step), step.shards, step.sequences, step.gradients, jobs);
}

template <class Real>
int64_t AttentionBlock<Real>::more_sums() const {
  const bool needed =
      options_.memory == AttentionMemory::kInputs && options_.most_memory > 0;
  return needed ? 2 * kept_ * (width_ + 1) : 0;
}

template <class Real>
NormedSums<Real> AttentionBlock<Real>::MemorySums(Real* sums, int projection) const {
  Real* const outer = sums + more_sums_ + projection * kept_ * (width_ + 1);
  return {.outer = outer, .dy = outer + kept_ * width_};
}

template <class Real>
void AttentionBlock<Real>::FinishSums(const Real* weights, Real* sums) const {
  if (more_sums() == 0) return;
  AddNormed(MemorySums(sums, 0), key_, norm_.map(), weights, sums);
  AddNormed(MemorySums(sums, 1), value_, norm_.map(), weights, sums);
}

template <class Real>
std::vector<Part> AttentionBlock<Real>::UnusedGradients() const {
  return tables_ ? tables_->UnusedGradients() : std::vector<Part>{};
}

template <class Real>
std::vector<typename PassCarry<Real>::Entry> AttentionBlock<Real>::Continue(
    const PassStep<Real>& step, RowsOfReal<const Real> x) {
  if (carry_entries() == 0) return {};
  // An initializer list would copy them.
  std::vector<CarryEntry> entries;
  if (options_.memory == AttentionMemory::kInputs) {
    entries.push_back(LastRows(step, width_, memory_.inputs, x));
  } else {
    entries.push_back(LastRows(step, kept_, memory_.given_keys, keys_.rows()));
    entries.push_back(LastRows(step, kept_, memory_.given_values, values_.rows()));
  }
  return entries;
}

template <class Real>
typename PassCarry<Real>::Entry AttentionBlock<Real>::LastRows(
    const PassStep<Real>& step, int64_t width, RowsOfReal<const Real> before,
    RowsOfReal<const Real> rows) const {
  const int64_t all = memory_.count + step.time,
                count = std::min(all, options_.most_memory);
  CarryEntry entry = {.count = count, .values = {}};
  entry.values.resize(static_cast<size_t>(step.sequences * count * width));
  Real* to = entry.values.data();
  for (int64_t b = 0; b < step.sequences; ++b) {
    for (int64_t j = all - count; j < all; ++j, to += width) {
      const Real* const from = j < memory_.count
                                   ? before.row(b * memory_.count + j)
                                   : rows.row(b * step.time + j - memory_.count);
      std::copy_n(from, width, to);
    }
  }
  return entry;
}

template class AttentionBlock<float>;
template class AttentionBlock<double>;

}  // namespace mnemon
