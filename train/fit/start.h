// SPDX-License-Identifier: MIT
// The weights that a run starts from, where they are not drawn.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "model/families/config.h"
#include "model/sequence/model.h"
#include "train/data/task.h"

namespace mnemon {

// Gives `model`, which `config` defines and whose weights have been drawn, those of the
// checkpoint or run `from`: of a model of the same shape, or for feedback those of a
// causal transformer of the same sizes ("Addressing Some Limitations of Transformers
// with Feedback Memory", Fan et al. 2020, section 5.1, starts from one). There scores
// stay what they are: with bq and bk, q.k = (Wq z + u).(Wk m) + the same for all keys,
// where u = bq; relative positions and ALiBi go into R and S by distance, with what bq
// adds. A shared projection is the mean of all layers'; it has no bias, so bo becomes
// bo + Wo bv. The mixture stays as drawn. The errors of LoadCheckpoint;
// INVALID_ARGUMENT names what does not fit, all of it.
absl::Status StartFrom(const std::string& from, const Task& task,
                       const ModelConfig& config, Model& model);

}  // namespace mnemon
