// SPDX-License-Identifier: MIT
// The one-pass form that every encoder has: its sequence form, one sequence at a time.
#pragma once

#include <memory>

#include "model/decoder/decoder.h"
#include "model/sequence/model.h"

namespace mnemon {

// Runs on one core whatever the pool's size, so that bits do not depend on the number
// of threads. `model` must outlive the predictor and keep its weights.
std::unique_ptr<Predictor> MakeDefaultPredictor(const Model& model);

}  // namespace mnemon
