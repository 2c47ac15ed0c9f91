// SPDX-License-Identifier: MIT
// The weights of another run as the start of this one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "model/families/config.h"
#include "model/sequence/model.h"
#include "train/data/task.h"

namespace mnemon {

// Replaces the weights of `model`, which `config` defines and whose weights have been
// drawn, by those of the checkpoint or run `from`. That has a model of the same shape;
// or, for feedback, a causal transformer of the same sizes, as in "Addressing Some
// Limitations of Transformers with Feedback Memory", Fan et al. 2020, section 5.1.
//
// From a causal transformer, attention scores stay the same: with biases bq and bk,
// q.k = (Wq z + u).(Wk m) + a term that is equal for all keys, where u = bq. Relative
// positions and ALiBi go into R and S by distance, together with the contribution of
// bq. A shared projection is the mean over the layers; it has no bias, so bo becomes bo
// + Wo bv. The weights of the mixture stay as drawn.
//
// The errors of LoadCheckpoint; INVALID_ARGUMENT lists all that does not fit.
absl::Status StartFrom(const std::string& from, const Task& task,
                       const ModelConfig& config, Model& model);

}  // namespace mnemon
