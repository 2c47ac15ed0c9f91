// SPDX-License-Identifier: MIT
// Primitives of device code: indices, shared memory, barriers, shuffles, atomics and
// products of bytes. nvcc compiles them to instructions; on the host, a test links an
// emulator that implements the same functions (tests/fakes/device/device_emulator.h).
// C++17.
//
// Grids and blocks have one dimension; a block is whole warps. All threads of a grid,
// block, team or warp call barriers, shuffles and products of bytes at the same place
// of the code, and none of them has ended. Only barriers synchronise memory: other
// threads see a write only after a barrier. Between two operations that use the same
// shared or scratch memory there must be a Barrier.
//
// nvcc must be given -std=c++17 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true
// --expt-relaxed-constexpr, and never --use_fast_math: with others the bits differ.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#include <cooperative_groups.h>
#define MNEMON_DEVICE __device__ __forceinline__
#define MNEMON_UNROLL _Pragma("unroll")
#define MNEMON_NO_UNROLL _Pragma("unroll 1")
#else
#define MNEMON_DEVICE inline
#define MNEMON_UNROLL
#define MNEMON_NO_UNROLL
#endif

namespace mnemon::device {

inline constexpr int kWarp = 32;
inline constexpr int kMostTeams = 15;  // for TeamBarrier

#if defined(__CUDACC__)

MNEMON_DEVICE int ThreadIndex() { return static_cast<int>(threadIdx.x); }
MNEMON_DEVICE int ThreadCount() { return static_cast<int>(blockDim.x); }
MNEMON_DEVICE int BlockIndex() { return static_cast<int>(blockIdx.x); }
MNEMON_DEVICE int BlockCount() { return static_cast<int>(gridDim.x); }

// The block's shared memory, of the size given at launch, aligned to 16 bytes.
MNEMON_DEVICE void* SharedMemory() {
  extern __shared__ float4 mnemon_shared[];
  return mnemon_shared;
}

// Waits for all threads of the block; they then see each other's earlier writes.
MNEMON_DEVICE void Barrier() { __syncthreads(); }
// The same for the warp.
MNEMON_DEVICE void WarpBarrier() { __syncwarp(); }
// The same for the grid. REQUIRES: a cooperative launch, whose blocks all run at once.
MNEMON_DEVICE void GridBarrier() { cooperative_groups::this_grid().sync(); }

// A GridBarrier in two halves. Between them, when all threads of the block have
// arrived, the block may do what does not depend on other blocks.
MNEMON_DEVICE auto GridArrive() {
  Barrier();
  return cooperative_groups::this_grid().barrier_arrive();
}
template <class Token>
MNEMON_DEVICE void GridWait(Token&& token) {
  cooperative_groups::this_grid().barrier_wait(static_cast<Token&&>(token));
}

// The value of another lane of the warp.
MNEMON_DEVICE float Shuffle(float value, int lane) {
  return __shfl_sync(0xFFFFFFFFu, value, lane);
}
MNEMON_DEVICE int32_t Shuffle(int32_t value, int lane) {
  return __shfl_sync(0xFFFFFFFFu, value, lane);
}

MNEMON_DEVICE uint64_t Shuffle(uint64_t value, int lane) {
  return __shfl_sync(0xFFFFFFFFu, value, lane);
}
// Bit i is the argument of lane i of the warp. Synchronises like a shuffle.
MNEMON_DEVICE uint32_t Ballot(bool yes) {
  return __ballot_sync(0xFFFFFFFFu, yes ? 1 : 0);
}
MNEMON_DEVICE int CountBits(uint32_t bits) { return __popc(bits); }

// Atomics on shared or global memory. They return the previous value.
MNEMON_DEVICE uint32_t AtomicOr(uint32_t* to, uint32_t bits) {
  return atomicOr(to, bits);
}
MNEMON_DEVICE uint32_t AtomicAdd(uint32_t* to, uint32_t more) {
  return atomicAdd(to, more);
}
MNEMON_DEVICE uint32_t AtomicExchange(uint32_t* at, uint32_t value) {
  return atomicExch(at, value);
}
// A thread that sees a write made after the fence, and executes a fence itself, also
// sees the writes made before it.
MNEMON_DEVICE void Fence() { __threadfence(); }

// Barrier of a team: `threads` consecutive threads, whole warps, counted from the
// block's first thread. REQUIRES: at most kMostTeams teams.
MNEMON_DEVICE void TeamBarrier(int threads) {
  const int name = 1 + ThreadIndex() / threads;
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// Copies 16 bytes from global to shared memory, both aligned to 16 bytes, at some time
// before the thread's next AwaitCopies returns; until then nobody may read or write
// them. Other threads see them after a barrier that follows it.
MNEMON_DEVICE void CopyAhead(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(__cvta_generic_to_global(global))
               : "memory");
}
MNEMON_DEVICE void AwaitCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// sum [16, 8] += a [16, 32] (unsigned bytes) x b [32, 8] (signed), by all lanes of a
// warp together. With g = lane / 4 and t = lane % 4, a lane holds: of rows g and g + 8
// of `a`, numbers 4 t .. 4 t + 3 (a[0], a[1]) and those 16 further (a[2], a[3]); the
// same numbers of column g of `b`; columns 2 t and 2 t + 1 of row g (sum[0], sum[1])
// and of row g + 8 of the sums.
MNEMON_DEVICE void MultiplyBytes(const uint32_t (&a)[4], const int32_t (&b)[2],
                                 int32_t (&sum)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Each rounded once, to nearest even.
MNEMON_DEVICE float Fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
MNEMON_DEVICE float Divide(float a, float b) { return __fdiv_rn(a, b); }
MNEMON_DEVICE float SquareRoot(float a) { return __fsqrt_rn(a); }

#else

int ThreadIndex();
int ThreadCount();
int BlockIndex();
int BlockCount();
void* SharedMemory();
// `line`: the place of the call.
void Barrier(int line = __builtin_LINE());
void WarpBarrier(int line = __builtin_LINE());
void GridBarrier(int line = __builtin_LINE());
inline int GridArrive(int line = __builtin_LINE()) {
  Barrier(line);
  return line;
}
inline void GridWait(int /*token*/, int line = __builtin_LINE()) { GridBarrier(line); }
float Shuffle(float value, int lane, int line = __builtin_LINE());
int32_t Shuffle(int32_t value, int lane, int line = __builtin_LINE());
uint64_t Shuffle(uint64_t value, int lane, int line = __builtin_LINE());
uint32_t Ballot(bool yes, int line = __builtin_LINE());
MNEMON_DEVICE int CountBits(uint32_t bits) { return __builtin_popcount(bits); }
uint32_t AtomicOr(uint32_t* to, uint32_t bits);
uint32_t AtomicAdd(uint32_t* to, uint32_t more);
uint32_t AtomicExchange(uint32_t* at, uint32_t value);
MNEMON_DEVICE void Fence() {}
void TeamBarrier(int threads, int line = __builtin_LINE());
void CopyAhead(void* shared, const void* global);
void AwaitCopies();
void MultiplyBytes(const uint32_t (&a)[4], const int32_t (&b)[2], int32_t (&sum)[4],
                   int line = __builtin_LINE());

MNEMON_DEVICE float Fma(float a, float b, float c) { return std::fma(a, b, c); }
MNEMON_DEVICE float Divide(float a, float b) { return a / b; }
MNEMON_DEVICE float SquareRoot(float a) { return std::sqrt(a); }

#endif

MNEMON_DEVICE int Lane() { return ThreadIndex() % kWarp; }
MNEMON_DEVICE int WarpIndex() { return ThreadIndex() / kWarp; }
MNEMON_DEVICE int WarpCount() { return ThreadCount() / kWarp; }

template <class T>
MNEMON_DEVICE T Smaller(T a, T b) {
  return a < b ? a : b;
}

}  // namespace mnemon::device
