// SPDX-License-Identifier: MIT
// A page of HTML about one or more runs: one file without scripts that loads nothing.
#pragma once

#include <string>
#include <vector>

#include "train/run/run_log.h"

namespace mnemon {

struct Figure {
  std::string name;  // for a file: letters, digits, "-" and "_"
  std::string svg;
};

// Figures that belong together: those of one layer, or of all.
struct FigureGroup {
  std::string title;
  std::string text;  // what they show, or why there are none; may be empty
  std::vector<Figure> figures;
  bool charts = true;  // else maps, which need less room
};

// One run in the table and with a section of its own. Texts of any bytes.
struct RunSection {
  std::string name;
  std::string path;
  std::string colour;              // "#rrggbb" of its curves
  std::vector<std::string> facts;  // a cell for each of ReportPage::facts
  std::vector<SampleRow> samples;
  std::vector<FigureGroup> groups;
};

struct ReportPage {
  std::vector<std::string> facts;  // columns of the table behind the name
  std::vector<Figure> curves;
  std::vector<RunSection> runs;
};

// Of many samples the first, the last and some between are shown. The page suits narrow
// and wide windows, light and dark.
std::string FormatReportPage(const ReportPage& page);

}  // namespace mnemon
