// SPDX-License-Identifier: MIT
#include "tests/fakes/late_decoder.h"
#include "tests/fakes/served_decoder.h"

namespace mnemon {

std::unique_ptr<Decoder> MakeServed(ToyDecoder& toy) {
  return std::make_unique<LateDecoder>(toy, LateDecoder::Options{});
}

}  // namespace mnemon
