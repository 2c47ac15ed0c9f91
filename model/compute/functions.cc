// SPDX-License-Identifier: MIT
// Compiled without contraction: a product and a sum are two roundings everywhere.
#include "model/compute/functions.h"

#include <cmath>
#include <cstdint>
#include <limits>

namespace mnemon::numerics {
namespace {

// ln 2 in two parts; the first times any exponent is exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLog2E = 0x1.71547652b82fep+0;

// pi / 2 in parts of 24 bits; each times a number of quarter turns is exact.
constexpr double kQuarter[] = {0x1.921fb4p+0, 0x1.4442dp-24, 0x1.846988p-48,
                               0x1.8cc516p-72};
constexpr double kQuartersPerRadian = 0x1.45f306dc9c883p-1;

// Taylor series, evaluated from the last term to the first: 1 + x (1 + x/2 (1 + ... x /
// n)).
double ExpNearZero(double x) {
  double sum = 1;
  for (int n = 14; n >= 2; --n) sum = 1 + x / n * sum;
  return 1 + x * sum;
}

// Alternating series in x^2, |x| <= pi / 4: x^first / first! - x^(first+2) / ... over
// x^first.
double Series(double square, int first) {
  double sum = 1;
  for (int n = first + 18; n > first; n -= 2) {
    sum = 1 - square / (n * (n - 1)) * sum;
  }
  return sum;
}

// The nearest quarter turn, and the rest of x.
struct Reduced {
  int64_t quarters;
  double rest;
};
Reduced Reduce(double x) {
  const double quarters = std::nearbyint(x * kQuartersPerRadian);
  double rest = x;
  for (const double part : kQuarter) rest -= quarters * part;
  return {static_cast<int64_t>(quarters), rest};
}

// The sine of x and `more` quarter turns.
double Turned(double x, int64_t more) {
  if (x != x) return x;
  const auto [quarters, rest] = Reduce(x);
  const int64_t turn = (quarters + more) & 3;
  const double square = rest * rest;
  const double value = turn % 2 == 0 ? rest * Series(square, 1) : Series(square, 0);
  return turn < 2 ? value : -value;
}

}  // namespace

double Exp(double x) {
  if (x != x) return x;
  if (x < -708) return 0;
  if (x > 709) return std::numeric_limits<double>::infinity();
  const double n = std::nearbyint(x * kLog2E);
  return std::ldexp(ExpNearZero(x - n * kLn2High - n * kLn2Low), static_cast<int>(n));
}

double Exp2(double x) {
  if (x != x) return x;
  if (x < -1021) return 0;
  if (x >= 1024) return std::numeric_limits<double>::infinity();
  const double n = std::nearbyint(x);
  return std::ldexp(ExpNearZero((x - n) * kLn2), static_cast<int>(n));
}

double Log(double x) {
  int exponent = 0;
  double fraction = std::frexp(x, &exponent);  // in [1/2, 1)
  if (fraction < 0x1.6a09e667f3bcdp-1) {
    fraction *= 2;
    --exponent;
  }
  // ln f = 2 (s + s^3 / 3 + s^5 / 5 ...), s = (f - 1) / (f + 1), |s| < 0.172.
  const double s = (fraction - 1) / (fraction + 1);
  const double square = s * s;
  double sum = 0;
  for (int n = 23; n >= 3; n -= 2) sum = square * (1.0 / n + sum);
  return exponent * kLn2High + (2 * s * sum + exponent * kLn2Low + 2 * s);
}

double Sin(double x) { return Turned(x, 0); }
double Cos(double x) { return Turned(x, 1); }

}  // namespace mnemon::numerics
