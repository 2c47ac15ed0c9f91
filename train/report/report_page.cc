// SPDX-License-Identifier: MIT
#include "train/report/report_page.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "train/report/markup.h"
#include "train/report/palette.h"

namespace mnemon {
namespace {

constexpr size_t kMostSamples = 24;

constexpr char kStyle[] = R"(
*{box-sizing:border-box}
body{margin:0;color:var(--text);background:var(--back);font:15px/1.5 system-ui,Helvetica,Arial,sans-serif}
main,header{max-width:1560px;margin:0 auto;padding:0 20px}
h1{font-size:26px;margin:24px 0 4px}
h2{font-size:20px;margin:40px 0 12px;padding-top:12px;border-top:1px solid var(--line);overflow-wrap:anywhere}
h3{font-size:16px;margin:24px 0 4px}
p{margin:0 0 12px;max-width:80ch}
.dim{color:var(--dim)}
.path{color:var(--dim);font-family:ui-monospace,monospace;font-size:13px;overflow-wrap:anywhere}
a{color:inherit}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:6px 10px;text-align:right;border-bottom:1px solid var(--line)}
th{font-weight:600;vertical-align:bottom}
th:first-child{text-align:left;overflow-wrap:anywhere}
tbody th{font-weight:500;vertical-align:top}
td{white-space:nowrap}
.key{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:8px}
.curves,.maps{display:grid;gap:16px;align-items:start}
.curves{grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr))}
.maps{grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr))}
.samples{columns:3 380px;column-gap:12px}
figure{margin:0;padding:8px;border:1px solid var(--line);border-radius:8px;min-width:0}
svg{display:block;width:100%;height:auto}
.samples details{margin:0 0 8px;break-inside:avoid;border:1px solid var(--line);border-radius:8px;padding:6px 12px}
summary{cursor:pointer;font-weight:500}
.group>summary{margin:24px 0 4px}
.group>summary h3{display:inline}
pre{margin:8px 0 4px;padding:10px;background:var(--soft);border-radius:6px;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.45 ui-monospace,monospace}
@media(max-width:900px){
main,header{padding:0 12px}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table,tbody,tr{display:block}
tr{border:1px solid var(--line);border-radius:8px;padding:8px 12px;margin-bottom:10px}
tbody th,td{display:flex;justify-content:space-between;gap:16px;border:0;padding:2px 0}
tbody th{justify-content:flex-start;gap:0;align-items:center;font-weight:600}
td::before{content:attr(data-label);color:var(--dim)}
}
)";

std::string Colours() {
  return StrCat("\n:root{color-scheme:light dark;--text:", kInk, ";--back:", kPaper,
                ";--line:#d5d9de;--soft:#f5f6f8;--dim:#59636e}\n"
                "@media(prefers-color-scheme:dark){:root{--text:",
                kDarkInk, ";--back:", kDarkPaper,
                ";--line:#343a43;--soft:#1c2128;--dim:#9aa4af}.heat{fill:", kDarkHeat,
                "}}");
}

std::string Table(const ReportPage& page) {
  std::string out = "<table>\n<thead><tr><th scope=\"col\">run</th>";
  for (const std::string& fact : page.facts) {
    out += StrCat("<th scope=\"col\">", EscapeMarkup(fact), "</th>");
  }
  out += "</tr></thead>\n<tbody>\n";
  for (size_t r = 0; r < page.runs.size(); ++r) {
    const RunSection& run = page.runs[r];
    out += StrCat(
        "<tr><th scope=\"row\"><span class=\"key\" style=\"background:", run.colour,
        "\"></span><a href=\"#run-", r + 1, "\">", EscapeMarkup(run.name), "</a></th>");
    for (size_t i = 0; i < run.facts.size(); ++i) {
      out += StrCat("<td data-label=\"", EscapeMarkup(page.facts[i]), "\"><span>",
                    EscapeMarkup(run.facts[i]), "</span></td>");
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

std::string Figures(const std::vector<Figure>& figures, const char* kind) {
  std::string out = StrCat("<div class=\"", kind, "\">\n");
  for (const Figure& figure : figures) {
    out += StrCat("<figure>", figure.svg, "</figure>\n");
  }
  return out + "</div>\n";
}

std::string Samples(const std::vector<SampleRow>& samples) {
  if (samples.empty()) return "";
  std::set<size_t> shown;
  const size_t count = std::min(samples.size(), kMostSamples);
  for (size_t i = 0; i < count; ++i) {
    shown.insert(count == 1 ? 0 : i * (samples.size() - 1) / (count - 1));
  }
  std::string out = "<h3>Samples over time</h3>\n";
  if (shown.size() < samples.size()) {
    out += StrCat("<p class=\"dim\">", shown.size(), " of ", samples.size(),
                  ", spread over the run.</p>\n");
  }
  out += "<div class=\"samples\">\n";
  for (const size_t i : shown) {
    // The first and the last tell the most.
    const bool open = i == 0 || i + 1 == samples.size();
    out +=
        StrCat("<details", open ? " open" : "", "><summary>update ", samples[i].step,
               "</summary><pre>", EscapeMarkup(samples[i].text), "</pre></details>\n");
  }
  return out + "</div>\n";
}

std::string Section(const RunSection& run, size_t number) {
  std::string out =
      StrCat("<section aria-labelledby=\"run-", number, "\">\n<h2 id=\"run-", number,
             "\"><span class=\"key\" style=\"background:", run.colour, "\"></span>",
             EscapeMarkup(run.name), "</h2>\n<p class=\"path\">",
             EscapeMarkup(run.path), "</p>\n", Samples(run.samples));
  for (const FigureGroup& group : run.groups) {
    out += StrCat("<details class=\"group\" open><summary><h3>",
                  EscapeMarkup(group.title), "</h3></summary>\n");
    if (!group.text.empty()) {
      out += StrCat("<p class=\"dim\">", EscapeMarkup(group.text), "</p>\n");
    }
    if (!group.figures.empty()) {
      out += Figures(group.figures, group.charts ? "curves" : "maps");
    }
    out += "</details>\n";
  }
  return out + "</section>\n";
}

}  // namespace

std::string FormatReportPage(const ReportPage& page) {
  std::vector<std::string> names;
  for (const RunSection& run : page.runs) names.push_back(run.name);
  const std::string title =
      EscapeMarkup(Shortened(StrCat("Training report: ", StrJoin(names, ", ")), 120));
  std::string out = StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
      title, "</title>\n<style>", Colours(), kStyle,
      "</style>\n</head>\n<body>\n<header><h1>Training report</h1>\n<p class=\"dim\">",
      page.runs.size(), page.runs.size() == 1 ? " run" : " runs",
      " of mnemon-train</p></header>\n<main>\n");
  out += Table(page);
  out += StrCat("<h2>Curves</h2>\n", Figures(page.curves, "curves"));
  for (size_t i = 0; i < page.runs.size(); ++i) out += Section(page.runs[i], i + 1);
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace mnemon
