// SPDX-License-Identifier: MIT
// The inner loops of the probes, in the widest vectors that this processor has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mnemon {

// The sum of `count` floats, in no particular order.
// REQUIRES: `from` aligned to 64 bytes, count a multiple of 512.
float ReadFloats(const float* from, size_t count);

// Independent multiply-adds from registers alone; returns the number of operations, a
// multiply-add counted as two.
double MultiplyAdd(int64_t rounds);

// The same of int8 into int32, four at once where this processor can (AVX-512 VNNI,
// AVX-VNNI), else of int16, two at once.
double MultiplyAddInt8(int64_t rounds);

}  // namespace mnemon
