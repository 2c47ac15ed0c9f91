// SPDX-License-Identifier: MIT
// plot as a user runs it.
#include <filesystem>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/io/temporary_directory.h"
#include "tests/train/commands/run_tool.h"
#include "tests/train/report/well_formed.h"
#include "train/report/palette.h"
#include "train/run/metrics.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kRows[] =
    "10,4,,0.001,1,,1000,60,15\n20,3,2.5,0.002,2,,2000,240,16\n"
    "30,2,1.5,0.002,2,,3000,480,16\n";
constexpr char kMetricsBefore[] =
    "step,loss,validation,learning_rate,gradient_norm,accuracy\n10,4,3,0.001,1,\n";

class PlotTest : public testing::Test {
 protected:
  void PutRun(const std::string& name, const std::string& architecture,
              const std::string& rows = kRows) {
    fs::create_directories(tmp_.Path(name + "/last"));
    tmp_.Put(name + "/metrics.csv", StrCat(kMetricsHeader, "\n", rows));
    tmp_.Put(name + "/last/config.json",
             StrCat("{\"architecture\": \"", architecture,
                    "\", \"d_model\": 8, \"heads\": 2, \"layers\": 1, \"d_ff\": 16, "
                    "\"vocab\": 4}"));
  }
  Ran Plot(std::vector<std::string> runs, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"plot"};
    for (const std::string& run : runs) arguments.push_back(tmp_.Path(run));
    if (more.empty() || more[0] != "--out") {
      arguments.insert(arguments.end(), {"--out", tmp_.Path("out.svg")});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunTool(arguments);
  }
  std::string Picture(const std::vector<std::string>& runs,
                      const std::vector<std::string>& more = {}) {
    const Ran ran = Plot(runs, more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.out, "");
    const std::string svg = tmp_.Get("out.svg");
    EXPECT_EQ(MarkupFault(svg), "");
    EXPECT_THAT(svg,
                AllOf(StartsWith("<?xml"), HasSubstr("prefers-color-scheme:dark")));
    return svg;
  }
  std::string Error(const std::vector<std::string>& runs,
                    const std::vector<std::string>& more, int code = 1) {
    const Ran ran = Plot(runs, more);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_FALSE(fs::exists(tmp_.Path("out.svg")));
    return ran.err;
  }

  const TemporaryDirectory tmp_;
};

std::string Stroke(const std::string& architecture) {
  return StrCat("stroke=\"", StyleOfArchitecture(architecture, 0).colour, "\"");
}

TEST_F(PlotTest, ARunHasTheColourOfItsArchitecture) {
  PutRun("causal", "causal");
  PutRun("b", "transformer_xl");
  PutRun("c", "transformer_xl");
  PutRun("new", "causal");
  fs::remove_all(tmp_.Path("new/last"));
  const std::string svg = Picture({"causal", "b", "c", "new"});
  EXPECT_THAT(svg,
              AllOf(HasSubstr(">Loss in nats: training thin"),
                    HasSubstr(">updates</text>"), HasSubstr(">causal</text>"),
                    HasSubstr(">b (transformer_xl)</text>"), HasSubstr(">new</text>")));
  EXPECT_THAT(svg, HasSubstr("causal: 2.5 at 20 to 1.5 at 30.")) << "the validation";
  EXPECT_THAT(svg, AllOf(HasSubstr(Stroke("causal")),
                         HasSubstr(Stroke("transformer_xl") + " stroke-dasharray="),
                         HasSubstr(StrCat("stroke=\"", kOtherColour, "\""))));
  EXPECT_THAT(Picture({"b", "c"}), HasSubstr(">transformer_xl: Loss in nats"));
}

TEST_F(PlotTest, AxesAreChosen) {
  PutRun("run", "causal");
  EXPECT_THAT(Picture({"run"}, {"--x", "time"}),
              AllOf(HasSubstr(">minutes of training</text>"),
                    HasSubstr("run (causal): 2.5 at 4 to 1.5 at 8.")));
  EXPECT_THAT(Picture({"run"}, {"--x", "tokens"}),
              AllOf(HasSubstr(">tokens seen</text>"),
                    HasSubstr("run (causal): 2.5 at 2000 to 1.5 at 3000.")));
  EXPECT_THAT(Picture({"run"}, {"--y", "bits"}),
              AllOf(HasSubstr("Loss in bits"), HasSubstr("run (causal): 3.607 at 20")));
  EXPECT_THAT(
      Picture({"run"}, {"--y", "speed"}),
      AllOf(HasSubstr("tokens/s"), HasSubstr("run (causal): 15 at 10 to 16 at 30.")));
}

TEST_F(PlotTest, NamesAreEscaped) {
  PutRun("a<b>&\"c", "causal");
  EXPECT_THAT(Picture({"a<b>&\"c"}),
              HasSubstr(">a&lt;b&gt;&amp;&quot;c (causal)</text>"));
}

TEST_F(PlotTest, ErrorsNameWhatIsMissing) {
  PutRun("run", "causal");
  EXPECT_THAT(Error({"run", "none"}, {}), HasSubstr("none' is not a run directory"));
  EXPECT_THAT(Error({"run/last"}, {}), HasSubstr("has no metrics.csv"));
  PutRun("empty", "causal", "");
  EXPECT_THAT(Error({"run", "empty"}, {}),
              HasSubstr("empty/metrics.csv has no rows yet"));
  fs::create_directory(tmp_.Path("before"));
  tmp_.Put("before/metrics.csv", kMetricsBefore);
  EXPECT_THAT(Error({"run", "before"}, {"--x", "time"}),
              AllOf(HasSubstr("before/metrics.csv has nothing in column seconds"),
                    HasSubstr("use --x step")));
  EXPECT_THAT(Error({"before"}, {"--x", "tokens"}), HasSubstr("column tokens"));
  EXPECT_THAT(Error({"run"}, {"--y", "accuracy"}),
              AllOf(HasSubstr("column accuracy"), HasSubstr("use --y loss")));
  EXPECT_THAT(Error({"before"}, {"--y", "speed"}),
              HasSubstr("column tokens_per_second"));
  EXPECT_THAT(Error({"run"}, {"--x", "epoch"}, 2),
              AllOf(HasSubstr("--x"), HasSubstr("tokens")));
  EXPECT_THAT(Error({"run"}, {"--y", "perplexity"}, 2), HasSubstr("bits"));
  EXPECT_THAT(Error({"run"}, {"--out", tmp_.Path("none/c.svg")}),
              HasSubstr(tmp_.Path("none")));
  EXPECT_THAT(Error({}, {}, 2), HasSubstr("runs"));
  EXPECT_THAT(Error(std::vector<std::string>(25, "run"), {}, 2),
              HasSubstr("at most 24"));
  EXPECT_THAT(Picture({"before"}), HasSubstr(">before</text>"));
}

}  // namespace
}  // namespace mnemon
