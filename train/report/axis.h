// SPDX-License-Identifier: MIT
// The axis of a chart: maps a range of numbers to pixels and has ticks.
#pragma once

#include <string>
#include <vector>

namespace mnemon {

struct AxisRange {
  double least = 0;
  double most = 0;
};

// Constant after construction.
class Axis {
 public:
  // `range`: of the data. With `rounded` the axis extends to the ticks around it.
  // `first`, `last`: pixels of the ends. REQUIRES: a finite range, least <= most; above
  // 0 with `logarithmic`.
  Axis(AxisRange range, bool logarithmic, bool rounded, double first, double last);

  // The pixel of a value.
  double At(double value) const;

  // Ascending, within the axis.
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double Scaled(double value) const;
  void PlaceLinearTicks(bool rounded);
  void PlaceLogarithmicTicks(bool rounded);

  AxisRange range_;
  const bool logarithmic_;
  const double first_, last_;
  std::vector<double> ticks_;
};

// A number as a label: "250", "20k", "1.5M", "0.02", "3e-5".
std::string TickText(double value);

}  // namespace mnemon
