// SPDX-License-Identifier: MIT
// A loaded model, as it is given to the engine.
#pragma once

#include <string_view>

#include "model/decoder/decoder.h"
#include "model/text/tokenizer.h"
#include "server/requests/request.h"

namespace mnemon {

// If several models are loaded, a call that names none goes to the one of this name.
inline constexpr std::string_view kDefaultModel = "default";

// Either a decoder, which has sessions, or a predictor. The pointees outlive the
// engine; `tokenizer`, which may be null, also outlives the streams of its calls.
struct EngineModel {
  ModelFacts facts;
  Decoder* decoder = nullptr;
  Predictor* predictor = nullptr;
  const Tokenizer* tokenizer = nullptr;
};

}  // namespace mnemon
