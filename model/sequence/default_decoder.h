// SPDX-License-Identifier: MIT
// The step form that every architecture has: one session and one token at a time
// through the sequence form. Slow and exact, so that a new architecture can be served
// at once.
#pragma once

#include <memory>

#include "model/decoder/decoder.h"
#include "model/sequence/model.h"

namespace mnemon {

// spec() is model.carry_spec(). Runs on one core for any pool size, so that bits do not
// depend on the number of threads. `model` must outlive the decoder and keep its
// weights.
std::unique_ptr<Decoder> MakeDefaultDecoder(const Model& model);
// The same, owning the model.
std::unique_ptr<Decoder> MakeDefaultDecoder(std::unique_ptr<const Model> model);

}  // namespace mnemon
