// SPDX-License-Identifier: MIT
#include "train/report/report_page.h"

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/report/well_formed.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ReportPage PageOf(std::vector<SampleRow> samples) {
  return {.facts = {"time"},
          .curves = {{.name = "loss", .svg = "<svg></svg>"}},
          .runs = {{.name = "<b>run</b>",
                    .path = "runs/\xff",
                    .colour = "#123456",
                    .facts = {"1 & 2"},
                    .samples = std::move(samples),
                    .groups = {{.title = "Maps",
                                .text = "why <not>",
                                .figures = {{.name = "m", .svg = "<svg>2</svg>"}},
                                .charts = false}}}}};
}

TEST(ReportPage, EscapesAllThatComesFromFiles) {
  const std::string page =
      FormatReportPage(PageOf({{.step = 7, .text = "</pre><script>\x01 \xff\n\"&"}}));
  EXPECT_EQ(MarkupFault(page, /*html=*/true), "");
  EXPECT_THAT(page, HasSubstr("&lt;/pre&gt;&lt;script&gt;\uFFFD \uFFFD\n&quot;&amp;"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;run&lt;/b&gt;"));
  EXPECT_THAT(page, HasSubstr("runs/\uFFFD"));
  EXPECT_THAT(page, HasSubstr("why &lt;not&gt;"));
  EXPECT_THAT(page, HasSubstr("1 &amp; 2"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

TEST(ReportPage, NeedsNothingElse) {
  const std::string page = FormatReportPage(PageOf({}));
  for (const char* const load : {"src=", "url(", "@import", "<link", "http"}) {
    EXPECT_THAT(page, Not(HasSubstr(load)));
  }
  EXPECT_THAT(page, HasSubstr("<html lang=\"en\">"));
  EXPECT_THAT(page,
              HasSubstr("<title>Training report: &lt;b&gt;run&lt;/b&gt;</title>"));
  EXPECT_THAT(page, HasSubstr("width=device-width"));
  EXPECT_THAT(page, HasSubstr("<figure><svg>2</svg></figure>"));
  EXPECT_THAT(page, Not(HasSubstr("Samples over time")));
}

TEST(ReportPage, ShowsSomeOfManySamples) {
  std::vector<SampleRow> samples;
  for (int i = 1; i <= 1000; ++i) samples.push_back({.step = i, .text = "t"});
  const std::string page = FormatReportPage(PageOf(samples));
  EXPECT_THAT(page, HasSubstr("24 of 1000"));
  EXPECT_THAT(page, HasSubstr("<details open><summary>update 1</summary>"));
  EXPECT_THAT(page, HasSubstr("<details open><summary>update 1000</summary>"));
  samples.resize(1);
  EXPECT_THAT(FormatReportPage(PageOf(samples)), HasSubstr("update 1<"));
}

}  // namespace
}  // namespace mnemon
