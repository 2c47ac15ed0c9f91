// SPDX-License-Identifier: MIT
// Measurement of what this machine reaches now: streaming reads and multiply-adds, by
// all cores in use together. Takes the best of many short passes, so that other load on
// the machine does not change the figure unless it disturbs every pass; then figures
// from before and after a measurement differ.
#pragma once

#include <chrono>
#include <cstdint>

namespace mnemon {

// Bytes per second of `threads` threads that repeatedly read disjoint parts of one
// buffer of `bytes`. Takes about `budget` and at least two passes, plus the time to
// fill the buffer; throws std::bad_alloc. REQUIRES: threads >= 1.
double ProbeRead(int64_t bytes, int threads, std::chrono::duration<double> budget);

// float32 operations per second, a multiply-add counted as two.
double ProbeFma(int threads, std::chrono::duration<double> budget);
// The same for int8: see MultiplyAddInt8.
double ProbeInt8(int threads, std::chrono::duration<double> budget);

// Far larger than any cache: what "from memory" means here.
inline constexpr int64_t kMemoryBytes = int64_t{512} << 20;

}  // namespace mnemon
