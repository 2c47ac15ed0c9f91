// SPDX-License-Identifier: MIT
// An HTML page about one or more runs: one file, without scripts, that loads nothing.
#pragma once

#include <string>
#include <vector>

#include "train/run/run_log.h"

namespace mnemon {

struct Figure {
  std::string name;  // as a file name: letters, digits, "-" and "_"
  std::string svg;
};

// Figures shown together: those of one layer, or of all.
struct FigureGroup {
  std::string title;
  std::string text;  // what they show, or why there are no figures; may be empty
  std::vector<Figure> figures;
  bool charts = true;  // else maps, which take less room
};

// One run: its row of the table and its section. Texts may have any bytes.
struct RunSection {
  std::string name;
  std::string path;
  std::string colour;              // "#rrggbb" of its curves
  std::vector<std::string> facts;  // a cell for each of ReportPage::facts
  std::vector<SampleRow> samples;
  std::vector<FigureGroup> groups;
};

struct ReportPage {
  std::vector<std::string> facts;  // columns of the table after the name
  std::vector<Figure> curves;
  std::vector<RunSection> runs;
};

// Formats the page for narrow and wide windows, light and dark. Of many samples it
// shows the first, the last and some between.
std::string FormatReportPage(const ReportPage& page);

}  // namespace mnemon
