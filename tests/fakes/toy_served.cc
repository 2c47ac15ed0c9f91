// SPDX-License-Identifier: MIT
#include "tests/fakes/served_decoder.h"

namespace mnemon {

std::unique_ptr<Decoder> MakeServed(ToyDecoder&) { return nullptr; }

}  // namespace mnemon
