// SPDX-License-Identifier: MIT
// Decoder of the engine in tests. Test binaries that link toy_served.cc test a decoder
// on the host, those that link late_served.cc the same with one on a device.
#pragma once

#include <memory>

#include "tests/fakes/toy_decoder.h"

namespace mnemon {

// Null: the toy itself, which must outlive the engine.
std::unique_ptr<Decoder> MakeServed(ToyDecoder& toy);

}  // namespace mnemon
