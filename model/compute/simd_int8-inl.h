// SPDX-License-Identifier: MIT
// Int8 implementations of a target, see simd_int8.cc. Included once per target by
// Highway.
#if defined(MNEMON_SIMD_INT8_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_INT8_INL_H
#undef MNEMON_SIMD_INT8_INL_H
#else
#define MNEMON_SIMD_INT8_INL_H
#endif

#include <hwy/highway.h>

#include "model/compute/int8_rows.h"

// Targets with a form of vpdpbusd that only some of their processors have.
#undef MNEMON_INT8_VNNI
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define MNEMON_INT8_VNNI 1
#else
#define MNEMON_INT8_VNNI 0
#endif

namespace mnemon {
namespace HWY_NAMESPACE {

// For every processor of the target.
extern const Int8Kernels kAnyInt8;
#if MNEMON_INT8_VNNI
// REQUIRES: HasVnni().
extern const Int8Kernels kVnniInt8;
bool HasVnni();
#endif

}  // namespace HWY_NAMESPACE
}  // namespace mnemon

#endif  // MNEMON_SIMD_INT8_INL_H
