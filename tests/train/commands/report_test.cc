// SPDX-License-Identifier: MIT
// fit and report as a user runs them.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/sequence/load.h"
#include "tests/model/io/temporary_directory.h"
#include "tests/train/commands/run_tool.h"
#include "tests/train/report/event_reader.h"
#include "tests/train/report/well_formed.h"
#include "train/data/id_tensor.h"
#include "train/report/validation_stretch.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kMetricsStart[] =
    "step,loss,validation,learning_rate,gradient_norm,accuracy,tokens,seconds,"
    "tokens_per_second\n";

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    std::string text;
    for (uint32_t i = 0, random = 1; i < 900; ++i) {
      random = random * 1664525 + 1013904223;
      text += "aab <d\n"[(random >> 24) % 7];
    }
    tmp_.Put("text.txt", text);
  }

  void Fit(const std::string& name, const std::string& model, const std::string& data) {
    tmp_.Put("run.toml",
             StrCat("[model]\nd_model = 8\nheads = 2\nlayers = 2\nd_ff = 16\n", model,
                    "\n[data]\nseq_len = 8\nbatch = 2\n", data,
                    "\n[train]\nsteps = 20\nlog_every = 2\nvalidate_every = 5\n"
                    "validation_batches = 2\n[sample]\ntokens = 6\n"));
    const Ran ran = RunTool({"fit", "--config", tmp_.Path("run.toml"), "--out",
                             tmp_.Path(name), "--threads", "1"});
    ASSERT_EQ(ran.code, 0) << ran.err;
  }
  void FitText(const std::string& name, const std::string& model,
               const std::string& data = "") {
    Fit(name, model, StrCat("text = \"", tmp_.Path("text.txt"), "\"\n", data));
  }
  void FitCausal(const std::string& name) {
    FitText(name, "architecture = \"causal\"\nposition_kind = \"sinusoidal\"");
  }

  Ran Report(const std::vector<std::string>& runs,
             const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"report"};
    for (const std::string& run : runs) arguments.push_back(tmp_.Path(run));
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunTool(arguments);
  }
  // The page of these runs, which is well-formed.
  std::string Page(const std::vector<std::string>& runs) const {
    const Ran ran = Report(runs, {"--out", tmp_.Path("r.html"), "--svg",
                                  tmp_.Path("svg"), "--tensorboard", tmp_.Path("tb")});
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::string page = tmp_.Get("r.html");
    EXPECT_EQ(MarkupFault(page, /*html=*/true), "");
    return page;
  }
  // A picture that is also on the page.
  std::string Picture(const std::string& name) const {
    std::string svg = tmp_.Get(StrCat("svg/", name, ".svg"));
    EXPECT_EQ(MarkupFault(svg), "") << name;
    EXPECT_THAT(svg, StartsWith("<?xml")) << name;
    const std::string body = svg.substr(svg.find("</style>") + 8);
    EXPECT_THAT(tmp_.Get("r.html"), HasSubstr(body.substr(0, body.size() - 1))) << name;
    return svg;
  }
  std::string Error(const std::vector<std::string>& runs,
                    const std::vector<std::string>& more) const {
    const Ran ran = Report(runs, more);
    EXPECT_EQ(ran.code, 1) << ran.err;
    return ran.err;
  }

  const TemporaryDirectory tmp_;
};

TEST_F(ReportTest, ShowsTheMemoryOfEachArchitecture) {
  FitText("causal", "architecture = \"causal\"\nposition_kind = \"alibi\"");
  FitText("fast", "architecture = \"fast_weights\"\nnu = 1");
  FitText(
      "xl",
      "architecture = \"transformer_xl\"\nposition_kind = \"relative\"\nmem_len = 8\n"
      "positions = 64",
      "loader = \"sequential\"");
  FitText("feedback",
          "architecture = \"feedback\"\nposition_kind = \"relative\"\npositions = 32");
  FitText("shared",
          "architecture = \"feedback_shared\"\nposition_kind = \"relative\"\n"
          "positions = 32");
  Fit("encoder",
      "architecture = \"encoder\"\npositions = 16\nposition_kind = "
      "\"sinusoidal\"",
      "task = \"reverse\"\nclasses = 4\ntraining_sequences = 100\n"
      "validation_sequences = 10\ntest_sequences = 10");
  const std::string page =
      Page({"causal", "fast", "xl", "feedback", "shared", "encoder"});
  EXPECT_THAT(page, Not(HasSubstr("There are no pictures")));
  for (const char* const architecture : {"causal", "fast_weights", "transformer_xl",
                                         "feedback", "feedback_shared", "encoder"}) {
    EXPECT_THAT(page, HasSubstr(StrCat("<span>", architecture, "</span>")));
  }
  for (const char* const curve : {"loss", "loss-over-time", "accuracy", "learning-rate",
                                  "gradient-norm", "speed"}) {
    EXPECT_THAT(Picture(curve), HasSubstr(">encoder</text>")) << curve;
  }
  EXPECT_THAT(Picture("loss"), HasSubstr(">shared (feedback_shared)</text>"));
  EXPECT_THAT(Picture("accuracy"), Not(HasSubstr(">shared ")));
  for (const char* const map : {"mean", "head-1", "head-2"}) {
    for (const char* const run : {"feedback", "shared", "encoder"}) {
      Picture(StrCat(run, "/attention-layer-2-", map));
    }
  }
  // The memory in front of a segment is as long as the segment.
  EXPECT_THAT(Picture("xl/distance-layer-2"), HasSubstr(" at 15."));
  EXPECT_THAT(
      Picture("causal/distance-layer-1"),
      AllOf(HasSubstr("head 2: "), HasSubstr(" at 7."), HasSubstr(" at 0 to ")));
  EXPECT_THAT(Picture("feedback/distance-layer-1"), HasSubstr(" at 1 to "));
  EXPECT_THAT(Picture("fast/norm-layer-2"), HasSubstr(">head 2</text>"));
  EXPECT_FALSE(fs::exists(tmp_.Path("svg/fast/distance-layer-1.svg")));
  EXPECT_FALSE(fs::exists(tmp_.Path("svg/encoder/distance-layer-1.svg")));
  EXPECT_THAT(page, HasSubstr("Samples over time"));
  EXPECT_THAT(page, HasSubstr("update 20</summary>"));
}

// The curve ends where one pass over the same tokens does.
TEST_F(ReportTest, NormsAreThoseOfTheMatrices) {
  FitText("run", "architecture = \"fast_weights\"\nnu = 1");
  Page({"run"});
  const std::string run = tmp_.Path("run");
  const absl::StatusOr<LoadedModel> loaded = LoadCheckpoint(run);
  const absl::StatusOr<ValidationStretch> stretch = ReadValidationStretch(run, {});
  ASSERT_TRUE(loaded.ok() && stretch.ok());
  const Batch& window = stretch->windows.at(0);
  ASSERT_EQ(window.columns, 8);
  const auto result = loaded->model->Forward(IdTensor(window.inputs.data(), 1, 8), {});
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string svg = Picture("run/norm-layer-2");
  const at::Tensor w = result->carry.tensors.back();  // [1, H, K, K']
  for (int64_t head = 0; head < 2; ++head) {
    const size_t at = svg.find(" to ", svg.find(StrCat("head ", head + 1, ": ")));
    ASSERT_NE(at, svg.npos);
    const double norm = std::sqrt((w[0][head] * w[0][head]).sum().item<double>());
    EXPECT_NEAR(std::stod(svg.substr(at + 4)), norm, 1e-3 * norm) << svg.substr(at, 20);
  }
}

TEST_F(ReportTest, WritesEventsThatCanBeReadBack) {
  FitCausal("run");
  ASSERT_EQ(Report({"run"}, {"--tensorboard", tmp_.Path("tb")}).code, 0);
  const std::vector<ReadEvent> events =
      ReadEvents(tmp_.Get("tb/run/events.out.tfevents.mnemon"));
  int losses = 0, validations = 0, speeds = 0, texts = 0;
  for (const ReadEvent& event : events) {
    losses += event.scalars.contains("loss/train");
    validations += event.scalars.contains("loss/validation");
    speeds += event.scalars.contains("tokens_per_second");
    texts += event.texts.contains("sample");
    EXPECT_GT(event.wall_time, 1e9);
  }
  // A row for every second update and every fifth.
  EXPECT_EQ(losses, 12);
  EXPECT_EQ(validations, 4);
  EXPECT_EQ(speeds, losses);
  EXPECT_EQ(texts, validations);
}

TEST_F(ReportTest, SaysWhatIsMissingAndGoesOn) {
  FitCausal("run");
  fs::rename(tmp_.Path("text.txt"), tmp_.Path("moved.txt"));
  EXPECT_THAT(Page({"run"}), AllOf(HasSubstr("There are no pictures of the memory"),
                                   HasSubstr("text.txt"), HasSubstr("<span>causal")));
  tmp_.Put("text.txt", tmp_.Get("moved.txt") + "a");
  EXPECT_THAT(Page({"run"}), HasSubstr("has changed since training"));
  fs::rename(tmp_.Path("moved.txt"), tmp_.Path("text.txt"));
  EXPECT_THAT(Page({"run"}), Not(HasSubstr("There are no pictures of the memory")));
  tmp_.Put("run/best/model.safetensors", "damage");
  EXPECT_THAT(Page({"run"}), AllOf(HasSubstr("There are no pictures of the memory"),
                                   HasSubstr("model.safetensors")));
  fs::remove_all(tmp_.Path("run"));
  fs::create_directory(tmp_.Path("run"));
  tmp_.Put("run/metrics.csv", StrCat(kMetricsStart, "10,2.5,,0.1,1"));
  EXPECT_THAT(Page({"run"}), HasSubstr("nothing recorded yet"));
}

TEST_F(ReportTest, ErrorsNameTheFile) {
  FitCausal("run");
  const std::vector<std::string> out = {"--out", tmp_.Path("r.html")};
  EXPECT_THAT(Error({"run", "none"}, out), HasSubstr(tmp_.Path("none")));
  EXPECT_THAT(Error({"run/best"}, out), HasSubstr("has no metrics.csv"));
  EXPECT_FALSE(fs::exists(tmp_.Path("r.html")));
  EXPECT_THAT(Error({"run"}, {"--out", tmp_.Path("none/r.html")}),
              HasSubstr(tmp_.Path("none")));
  EXPECT_THAT(Error({"run"}, {"--svg", tmp_.Path("text.txt")}), HasSubstr("text.txt'"));
  EXPECT_THAT(Error({"run"}, {"--tensorboard", tmp_.Path("text.txt/x")}),
              HasSubstr("text.txt'"));
  tmp_.Put("run/metrics.csv", StrCat(kMetricsStart, "ten\n"));
  EXPECT_THAT(Error({"run"}, out), HasSubstr("run/metrics.csv, line 2: 'ten'"));
  const Ran nothing = Report({"run"}, {});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("--tensorboard"));
}

TEST_F(ReportTest, AHugeRunIsASmallPage) {
  FitCausal("run");
  std::string metrics = kMetricsStart;
  for (int i = 1; i <= 200'000; ++i) {
    metrics += StrCat(i, ",", i == 123456 ? 777 : 2, ",2,0.1,1,,", i, ",", i, ",100\n");
  }
  tmp_.Put("run/metrics.csv", metrics);
  const std::string page = Page({"run"});
  EXPECT_LT(page.size(), 400'000u);
  EXPECT_THAT(tmp_.Get("svg/loss.svg"), HasSubstr(">800</text>")) << "the largest";
}

}  // namespace
}  // namespace mnemon
