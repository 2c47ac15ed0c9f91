// SPDX-License-Identifier: MIT
#include "model/blocks/feedback_memory/gradient.h"

#include <utility>
#include <vector>

namespace mnemon {

template <class Real>
MemoryProjection<Real>::MemoryProjection(const FlatLayout& layout,
                                         const std::string& base, int64_t width,
                                         int64_t heads, int64_t head_width)
    : heads_(heads),
      head_width_(head_width),
      key_(layout, base + ".key", heads * head_width, width),
      value_(layout, base + ".value", heads * head_width, width) {
  key_.Reserve();
  value_.Reserve();
}

template <class Real>
void MemoryProjection<Real>::Reserve(const PassStep<Real>& step, int64_t positions) {
  const int64_t kept = heads_ * head_width_;
  rows_.Reserve(step.sequences, heads_, head_width_, positions,
                step.gradients != nullptr);
  for (Slab<Real>* slab : {&dkey_, &dvalue_}) slab->Reserve(step.rows(), kept);
  for (Slab<Real>* slab : {&carry_dkey_, &carry_dvalue_}) {
    slab->Reserve(step.sequences * step.memory, kept);
  }
}

template <class Real>
void MemoryProjection<Real>::Pack(const PassStep<Real>& step, int worker, int workers) {
  key_.Pack(step.weights, step.gradients != nullptr, worker, workers);
  value_.Pack(step.weights, step.gradients != nullptr, worker, workers);
}

template <class Real>
void MemoryProjection<Real>::Recall(const PassStep<Real>& step,
                                    RowsOfReal<const Real> carried, Part rows) {
  const auto project = [&](const LinearMap<Real>& map, Slab<Real>& to) {
    map.Forward(step.weights, {.rows = rows.size(),
                               .in = carried.from(rows.begin),
                               .from = {},
                               .out = to.rows(rows.begin)});
  };
  project(key_, carry_dkey_);
  project(value_, carry_dvalue_);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    for (int64_t h = 0; h < heads_; ++h) {
      rows_.Set(r / step.memory, h, r % step.memory, carry_dkey_.rows(r).data,
                carry_dvalue_.rows(r).data);
    }
  }
}

template <class Real>
void MemoryProjection<Real>::Project(const PassStep<Real>& step,
                                     RowsOfReal<const Real> mixed, Part rows,
                                     Part columns) {
  const auto project = [&](const LinearMap<Real>& map, Slab<Real>& to) {
    map.Forward(step.weights,
                {.rows = rows.size(),
                 .in = mixed.from(rows.begin),
                 .from = {},
                 .out = to.rows(rows.begin)},
                columns);
  };
  project(key_, dkey_);
  project(value_, dvalue_);
}

template <class Real>
void MemoryProjection<Real>::Put(const PassStep<Real>& step, const HeadShare& own,
                                 int64_t t, int64_t j) {
  own.ForHeads([&](int64_t h, Part sequences) {
    const Part rows = step.RowsOfToken(sequences, t);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      rows_.Set(step.SequenceOf(r), h, j, dkey_.rows(r).data, dvalue_.rows(r).data);
    }
  });
}

template <class Real>
void MemoryProjection<Real>::BeginBackward(const HeadShare& own) {
  own.ForHeads([&](int64_t h, Part sequences) {
    for (int64_t b = sequences.begin; b < sequences.end; ++b) {
      rows_.ClearGradients(b, h);
    }
  });
}

template <class Real>
void MemoryProjection<Real>::Take(const PassStep<Real>& step, const HeadShare& own,
                                  int64_t t, int64_t j) {
  own.ForHeads([&](int64_t h, Part sequences) {
    const Part rows = step.RowsOfToken(sequences, t);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      rows_.CopyGradients(step.SequenceOf(r), h, j, dkey_.rows(r).data,
                          dvalue_.rows(r).data);
    }
  });
}

template <class Real>
void MemoryProjection<Real>::TakeCarried(const PassStep<Real>& step,
                                         const HeadShare& own) {
  own.ForHeads([&](int64_t h, Part some) {
    for (int64_t r = some.begin * step.memory; r < some.end * step.memory; ++r) {
      rows_.CopyGradients(r / step.memory, h, r % step.memory, carry_dkey_.rows(r).data,
                          carry_dvalue_.rows(r).data);
    }
  });
}

template <class Real>
void MemoryProjection<Real>::Backward(Part rows, RowsOfReal<const Real> from,
                                      RowsOfReal<Real> dmixed, Part columns) {
  const auto add = [&](const LinearMap<Real>& map, Slab<Real>& dy,
                       RowsOfReal<const Real> before) {
    map.Backward(
        {.rows = rows.size(), .in = dy.rows(rows.begin), .from = before, .out = dmixed},
        columns);
  };
  add(key_, dkey_, from);
  add(value_, dvalue_, dmixed);
}

template <class Real>
void MemoryProjection<Real>::AddJobs(const PassStep<Real>& step,
                                     const RowLayout& projected,
                                     RowsOfReal<const Real> mixed,
                                     RowsOfReal<const Real> carried,
                                     GradientJobs<Real>& jobs) {
  const RowLayout of_carry = {.sequences = step.sequences, .each = step.memory};
  const auto add = [&](const LinearMap<Real>& map, RowsOfReal<const Real> dy,
                       RowsOfReal<const Real> carry_dy) {
    std::vector<RowPairs<Real>> parts = {
        {projected, dy.data, dy.stride, mixed.data, mixed.stride}};
    if (step.memory > 0) {
      parts.push_back(
          {of_carry, carry_dy.data, carry_dy.stride, carried.data, carried.stride});
    }
    map.AddJobs(std::move(parts), step.shards, step.gradients, jobs);
  };
  add(key_, dkey_.rows(), carry_dkey_.rows());
  add(value_, dvalue_.rows(), carry_dvalue_.rows());
}

template class MemoryProjection<float>;
template class MemoryProjection<double>;

}  // namespace mnemon
