// SPDX-License-Identifier: MIT
// The set of tokens that may be drawn, cut by top-k, typical, top-p and min-p.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/sampling/key_sort.h"
#include "model/sampling/nucleus.h"

namespace mnemon {

// Vectors that a caller keeps between calls to avoid allocation.
struct CandidateScratch {
  std::vector<int32_t> ids;
  std::vector<double> weight;
  std::vector<KeyedId> entries;
  std::vector<KeyedId> spare;
  NucleusScratch nucleus;
};

// Weights are probabilities but for a common factor. They cost an exponential each and
// are computed when a cut or the caller needs them, of the tokens that are left then.
// Cuts have to come in the order in which they are declared; each works on what the
// ones before it have kept, and keeps one token at least. Ties keep smaller ids. A cut
// may also drop tokens whose weight is 0.
class Candidates {
 public:
  // All tokens. `logit` ([V], no NaN, no +infinity) and `scratch` outlive it; `most` is
  // the largest logit, finite. REQUIRES: temperature > 0.
  Candidates(std::span<const double> logit, double most, double temperature,
             CandidateScratch& scratch);

  // The k with the largest logits. REQUIRES: k > 0.
  void CutTopK(int32_t k);
  // The smallest set whose probability among the kept reaches p, those whose
  // information is closest to the entropy first.
  void CutTypical(double p);
  // The smallest set whose probability among the kept reaches p, the most likely first.
  void CutTopP(double p);
  // Those at least `share` as likely as the most likely one.
  void CutMinP(double share);

  // Computes the weights of all that are kept; their sum, added in the order of ids.
  double Weigh();
  std::span<const int32_t> ids() const { return ids_; }  // rising
  // REQUIRES: Weigh was called.
  double weight(int32_t id) const { return weight_[id]; }

 private:
  // Keeps the shortest beginning of entries_, one at least, whose weight reaches
  // `target`. REQUIRES: weighed_.
  void KeepUntil(double target);

  const std::span<const double> logit_;
  const double most_;
  const double temperature_;
  std::vector<int32_t>& ids_;
  std::vector<double>& weight_;  // [V], only those of ids_ once weighed_
  std::vector<KeyedId>& entries_;
  std::vector<KeyedId>& spare_;
  NucleusScratch& nucleus_;
  bool weighed_ = false;
};

}  // namespace mnemon
