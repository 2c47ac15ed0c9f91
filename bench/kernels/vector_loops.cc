// SPDX-License-Identifier: MIT
#include "bench/kernels/vector_loops.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace mnemon {
namespace {

// Enough chains in flight to hide the latency of an addition or a multiply-add.
constexpr int kChains = 12;
constexpr int kReadChains = 8;

// Keeps the compiler from dropping the loop that computed `value`.
void Keep(float value) { asm volatile("" : : "g"(value) : "memory"); }

// Chains must start differently, or the compiler would keep only one of them.
float Start(int chain) { return static_cast<float>(chain) / 16; }

float ReadPortable(const float* from, size_t count) {
  float sums[16] = {};
  for (size_t i = 0; i < count; i += 16) {
    for (int j = 0; j < 16; ++j) sums[j] += from[i + j];
  }
  float all = 0;
  for (const float sum : sums) all += sum;
  return all;
}

double MultiplyAddPortable(int64_t rounds) {
  float chains[8 * kChains];
  for (int i = 0; i < 8 * kChains; ++i) chains[i] = Start(i);
  for (int64_t round = 0; round < rounds; ++round) {
    for (float& chain : chains) chain = chain * 0.999f + 0.001f;
  }
  for (const float chain : chains) Keep(chain);
  return 2.0 * 8 * kChains * static_cast<double>(rounds);
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) float ReadAvx2(const float* from, size_t count) {
  __m256 sums[kReadChains] = {};
  for (size_t i = 0; i < count; i += 8 * kReadChains) {
#pragma GCC unroll 8
    for (int j = 0; j < kReadChains; ++j) {
      sums[j] = _mm256_add_ps(sums[j], _mm256_load_ps(from + i + 8 * j));
    }
  }
  float all = 0;
  for (const __m256& sum : sums) {
    for (int lane = 0; lane < 8; ++lane) all += sum[lane];
  }
  return all;
}

__attribute__((target("avx512f"))) float ReadAvx512(const float* from, size_t count) {
  __m512 sums[kReadChains] = {};
  for (size_t i = 0; i < count; i += 16 * kReadChains) {
#pragma GCC unroll 8
    for (int j = 0; j < kReadChains; ++j) {
      sums[j] = _mm512_add_ps(sums[j], _mm512_load_ps(from + i + 16 * j));
    }
  }
  float all = 0;
  for (const __m512& sum : sums) {
    for (int lane = 0; lane < 16; ++lane) all += sum[lane];
  }
  return all;
}

__attribute__((target("avx2,fma"))) double MultiplyAddAvx2(int64_t rounds) {
  const __m256 factor = _mm256_set1_ps(0.999f), addend = _mm256_set1_ps(0.001f);
  __m256 chains[kChains];
  for (int j = 0; j < kChains; ++j) chains[j] = _mm256_set1_ps(Start(j));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      chains[j] = _mm256_fmadd_ps(chains[j], factor, addend);
    }
  }
  for (const __m256& chain : chains) Keep(chain[0]);
  return 2.0 * 8 * kChains * static_cast<double>(rounds);
}

__attribute__((target("avx512f"))) double MultiplyAddAvx512(int64_t rounds) {
  const __m512 factor = _mm512_set1_ps(0.999f), addend = _mm512_set1_ps(0.001f);
  __m512 chains[kChains];
  for (int j = 0; j < kChains; ++j) chains[j] = _mm512_set1_ps(Start(j));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      chains[j] = _mm512_fmadd_ps(chains[j], factor, addend);
    }
  }
  for (const __m512& chain : chains) Keep(chain[0]);
  return 2.0 * 16 * kChains * static_cast<double>(rounds);
}

// By name, a whole round at once: intrinsics need attributes that compilers name
// differently, and compilers move single instructions through memory.
#define MNEMON_TWELVE(instruction, register) \
  instruction " %%" register "12, %%" register "13, %%" register "0\n"              \
  instruction " %%" register "12, %%" register "13, %%" register "1\n"              \
  instruction " %%" register "12, %%" register "13, %%" register "2\n"              \
  instruction " %%" register "12, %%" register "13, %%" register "3\n"              \
  instruction " %%" register "12, %%" register "13, %%" register "4\n"              \
  instruction " %%" register "12, %%" register "13, %%" register "5\n"              \
  instruction " %%" register "12, %%" register "13, %%" register "6\n"              \
  instruction " %%" register "12, %%" register "13, %%" register "7\n"              \
  instruction " %%" register "12, %%" register "13, %%" register "8\n"              \
  instruction " %%" register "12, %%" register "13, %%" register "9\n"              \
  instruction " %%" register "12, %%" register "13, %%" register "10\n"             \
  instruction " %%" register "12, %%" register "13, %%" register "11\n"
#define MNEMON_VECTORS                                                            \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
      "xmm10", "xmm11", "xmm12", "xmm13"

__attribute__((target("avx512f"))) double MultiplyAddVnni512(int64_t rounds) {
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile(MNEMON_TWELVE("vpdpbusd", "zmm") : : : MNEMON_VECTORS);
  }
  return 2.0 * 64 * kChains * static_cast<double>(rounds);
}

__attribute__((target("avx2"))) double MultiplyAddVnni256(int64_t rounds) {
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile(MNEMON_TWELVE("%{vex%} vpdpbusd", "ymm") : : : MNEMON_VECTORS);
  }
  return 2.0 * 32 * kChains * static_cast<double>(rounds);
}

// Products and sums are separate instructions: sums overlap with the products of
// others.
#define MNEMON_TWELVE_SUMS(register) \
  "vpaddd %%" register "0, %%" register "14, %%" register "14\n" \
  "vpaddd %%" register "1, %%" register "15, %%" register "15\n" \
  "vpaddd %%" register "2, %%" register "14, %%" register "14\n" \
  "vpaddd %%" register "3, %%" register "15, %%" register "15\n" \
  "vpaddd %%" register "4, %%" register "14, %%" register "14\n" \
  "vpaddd %%" register "5, %%" register "15, %%" register "15\n" \
  "vpaddd %%" register "6, %%" register "14, %%" register "14\n" \
  "vpaddd %%" register "7, %%" register "15, %%" register "15\n" \
  "vpaddd %%" register "8, %%" register "14, %%" register "14\n" \
  "vpaddd %%" register "9, %%" register "15, %%" register "15\n" \
  "vpaddd %%" register "10, %%" register "14, %%" register "14\n" \
  "vpaddd %%" register "11, %%" register "15, %%" register "15\n"

__attribute__((target("avx512f,avx512bw"))) double MultiplyAddPairs512(int64_t rounds) {
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile(MNEMON_TWELVE("vpmaddwd", "zmm") MNEMON_TWELVE_SUMS("zmm")
                 :
                 :
                 : MNEMON_VECTORS, "xmm14", "xmm15");
  }
  return 2.0 * 32 * kChains * static_cast<double>(rounds);
}

__attribute__((target("avx2"))) double MultiplyAddPairs256(int64_t rounds) {
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile(MNEMON_TWELVE("vpmaddwd", "ymm") MNEMON_TWELVE_SUMS("ymm")
                 :
                 :
                 : MNEMON_VECTORS, "xmm14", "xmm15");
  }
  return 2.0 * 16 * kChains * static_cast<double>(rounds);
}

#undef MNEMON_TWELVE_SUMS
#undef MNEMON_TWELVE
#undef MNEMON_VECTORS

// A bit of cpuid for the instruction sets beyond AVX2.
bool HasFeature(unsigned part, bool in_c, int bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, part, &a, &b, &c, &d) == 0) return false;
  return ((in_c ? c : a) >> bit & 1) != 0;
}

#endif

}  // namespace

float ReadFloats(const float* from, size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return ReadAvx512(from, count);
  if (__builtin_cpu_supports("avx2")) return ReadAvx2(from, count);
#endif
  return ReadPortable(from, count);
}

double MultiplyAdd(int64_t rounds) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return MultiplyAddAvx512(rounds);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return MultiplyAddAvx2(rounds);
  }
#endif
  return MultiplyAddPortable(rounds);
}

double MultiplyAddInt8(int64_t rounds) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && HasFeature(0, /*in_c=*/true, 11)) {
    return MultiplyAddVnni512(rounds);
  }
  if (__builtin_cpu_supports("avx512bw")) return MultiplyAddPairs512(rounds);
  if (__builtin_cpu_supports("avx2")) {
    return HasFeature(1, /*in_c=*/false, 4) ? MultiplyAddVnni256(rounds)
                                            : MultiplyAddPairs256(rounds);
  }
#endif
  return MultiplyAddPortable(rounds);
}

}  // namespace mnemon
