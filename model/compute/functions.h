// SPDX-License-Identifier: MIT
// Elementary functions of docs/numerics.md: for position tables, slopes and mixing
// weights, which are computed when a model is loaded, and for logarithms while tokens
// are sampled and scored. In binary64 with only + - x /, so that they have the same
// bits on every machine: the C library's differ between versions and processors. Pure
// functions, for any thread.
#pragma once

namespace mnemon::numerics {

// e^x, error below 1.25 units of the last place; zero below -708, infinite above 709,
// NaN for NaN.
double Exp(double x);

// 2^x, likewise; exact for integers. Zero below -1021, infinite from 1024 on.
double Exp2(double x);

// The natural logarithm, error below 2.25 units of the last place. REQUIRES: x
// positive, finite, not subnormal.
double Log(double x);

// Error below 2^-52. REQUIRES: |x| <= 2^29.
double Sin(double x);
double Cos(double x);

}  // namespace mnemon::numerics
