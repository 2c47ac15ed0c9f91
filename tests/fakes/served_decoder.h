// SPDX-License-Identifier: MIT
// What the engine of a test serves in place of its toy. Test binaries that link
// toy_served.cc test a decoder on the host, those that link late_served.cc the same
// with one on a device.
#pragma once

#include <memory>

#include "tests/fakes/toy_decoder.h"

namespace mnemon {

// Null: the toy itself, which outlives it.
std::unique_ptr<Decoder> MakeServed(ToyDecoder& toy);

}  // namespace mnemon
