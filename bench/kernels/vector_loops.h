// SPDX-License-Identifier: MIT
// Inner loops of the probes, in the widest vectors of this processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mnemon {

// The sum of `count` floats, in no particular order.
// REQUIRES: `from` aligned to 64 bytes, count a multiple of 512.
float ReadFloats(const float* from, size_t count);

// Independent multiply-adds from registers; returns the number of operations, a
// multiply-add counted as two.
double MultiplyAdd(int64_t rounds);

// The same for int8 into int32, four at once if the processor can (AVX-512 VNNI,
// AVX-VNNI), else for int16, two at once.
double MultiplyAddInt8(int64_t rounds);

}  // namespace mnemon
