// SPDX-License-Identifier: MIT
// fit, eval and attention as a user runs them: eval finds the loss that fit printed.
#include <cstdlib>
#include <filesystem>

#include "base/files/file.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/io/temporary_directory.h"
#include "tests/train/commands/run_tool.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// The number after `name` in `text`.
double NumberAfter(const std::string& text, const std::string& name) {
  const size_t at = text.rfind(name);
  EXPECT_NE(at, text.npos) << name << " is not in " << text;
  return at == text.npos ? 0 : std::atof(text.c_str() + at + name.size());
}

class EvalTest : public testing::Test {
 protected:
  EvalTest() {
    // 369 tokens to train on, 41 to validate: 5 windows of 8 and the first.
    for (uint32_t i = 0, random = 1; i < 410; ++i) {
      random = random * 1664525 + 1013904223;
      text_ += "aab cd\n"[(random >> 24) % 7];
    }
    tmp_.Put("text.txt", text_);
    tmp_.Put("validation.txt", text_.substr(369));
  }
  // Trains for a moment and returns the output; the checkpoint is Last().
  std::string Fit(const std::string& model, const std::string& data, int steps = 20) {
    fs::remove_all(tmp_.Path("run"));
    tmp_.Put("run.toml",
             StrCat("[model]\n", sizes_, "layers = 2\nd_ff = 16\n", model, "[data]\n",
                    data, "[optimiser]\nlr = 0.01\n[train]\nsteps = ", steps,
                    "\n[sample]\ntokens = 0\n"));
    const Ran ran = RunTool({"fit", "--config", tmp_.Path("run.toml"), "--out",
                             tmp_.Path("run"), "--threads", "1"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  }
  std::string FitText(const std::string& model, const std::string& data,
                      int steps = 20) {
    return Fit(model,
               StrCat("text = \"", tmp_.Path("text.txt"),
                      "\"\nseq_len = 8\nbatch = 1\n", data),
               steps);
  }
  std::string Last() const { return tmp_.Path("run/last"); }
  Ran Eval(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"eval", "--checkpoint", Last(), "--threads",
                                          "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunTool(arguments);
  }
  Ran EvalText(const std::string& file, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--text", tmp_.Path(file)});
    return Eval(more);
  }

  const TemporaryDirectory tmp_;
  std::string text_;
  std::string sizes_ = "d_model = 8\nheads = 2\n";
};

double Nats(const Ran& ran) {
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, ContainsRegex("^[0-9.]+ nats per character \\([0-9.]+ bits\\), "
                                     "accuracy 0\\.[0-9]+\n"));
  return std::atof(ran.out.c_str());
}

constexpr char kCausal[] =
    "architecture = \"causal\"\nposition_kind = \"learned\"\npositions = 20\n";

TEST_F(EvalTest, FindsTheValidationLossOfTheRunInBothForms) {
  struct Case {
    const char *model, *data, *memory;
  };
  for (const Case& c :
       {Case{kCausal, "", "memory fresh in each"},
        Case{"architecture = \"fast_weights\"\n", "", "memory fresh in each"},
        Case{"architecture = \"transformer_xl\"\nposition_kind = \"relative\"\n"
             "mem_len = 12\npositions = 32\n",
             "loader = \"sequential\"\n", "memory kept from one to the next"}}) {
    const double printed = NumberAfter(FitText(c.model, c.data), "  validation ");
    const Ran sequence = EvalText("validation.txt");
    EXPECT_NEAR(Nats(sequence), printed, 1.5e-4) << c.model;
    EXPECT_THAT(sequence.out, AllOf(HasSubstr("41 characters, 41 tokens"),
                                    HasSubstr("windows of 8 tokens"),
                                    HasSubstr(c.memory), HasSubstr("sequence form")));
    const Ran step = EvalText("validation.txt", {"--form", "step"});
    EXPECT_NEAR(Nats(step), printed, 1.5e-4) << c.model;
    EXPECT_THAT(step.out, HasSubstr("step form"));
  }
}

// A bfloat16 weight has 8 significant bits, one of int8 at most 7: what a trained model
// loses by it is small, and not nothing.
TEST_F(EvalTest, TrainedModelsLoseLittleInNarrowFormats) {
  const char* const words[] = {"when ", "the ", "king ",    "speaks ",
                               "all ",  "men ", "listen.\n"};
  std::string text;
  for (uint32_t i = 0, random = 1; i < 2000; ++i) {
    random = random * 1664525 + 1013904223;
    text += words[(random >> 24) % 7];
  }
  tmp_.Put("text.txt", text);
  // Heads of 8, so that output projections are in int8 as well.
  sizes_ = "d_model = 16\nheads = 2\n";
  for (const std::string& model :
       {std::string(kCausal), std::string("architecture = \"fast_weights\"\n"),
        std::string("architecture = \"transformer_xl\"\nposition_kind = \"relative\"\n"
                    "mem_len = 8\npositions = 32\n"),
        std::string("architecture = \"feedback\"\nposition_kind = \"relative\"\n"
                    "positions = 32\n"),
        std::string("architecture = \"feedback_shared\"\n"
                    "position_kind = \"relative\"\npositions = 32\n")}) {
    FitText(model, "", 200);
    const double wide = Nats(EvalText("text.txt", {"--form", "step"}));
    const double narrow =
        Nats(EvalText("text.txt", {"--form", "step", "--precision", "bf16"}));
    EXPECT_LT(wide, 1.2) << model << "has learned nothing";
    EXPECT_LT(narrow, wide + 0.005) << model;
    EXPECT_NE(narrow, wide) << model;
    const double int8 =
        Nats(EvalText("text.txt", {"--form", "step", "--precision", "int8"}));
    EXPECT_LT(int8, wide + 0.01) << model;
    EXPECT_NE(int8, wide) << model;
  }
}

TEST_F(EvalTest, WindowsAreThoseOfTheTrainingUnlessGiven) {
  FitText(kCausal, "");
  EXPECT_THAT(EvalText("text.txt").out, HasSubstr("windows of 8 tokens"));
  EXPECT_THAT(EvalText("text.txt", {"--window", "3"}).out,
              HasSubstr("windows of 3 tokens"));
  const Ran far = EvalText("text.txt", {"--window", "21"});
  EXPECT_EQ(far.code, 2);
  EXPECT_THAT(far.err, HasSubstr("beyond the 20"));
  // A model from elsewhere: as long as its positions allow, at most 128.
  fs::create_directory(tmp_.Path("bare"));
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    fs::copy_file(fs::path(Last()) / file, fs::path(tmp_.Path("bare")) / file);
  }
  EXPECT_THAT(RunTool({"eval", "--checkpoint", tmp_.Path("bare"), "--text",
                       tmp_.Path("text.txt"), "--threads", "1"})
                  .out,
              HasSubstr("windows of 20 tokens"));
}

TEST_F(EvalTest, ThePrecisionIsThatOfSteps) {
  FitText(kCausal, "");
  EXPECT_EQ(EvalText("text.txt", {"--precision", "fp32"}).code, 0);
  const Ran ran = EvalText("text.txt", {"--precision", "int8"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--precision int8 is for steps: add --form step"));
}

// What one character costs, not one byte.
TEST_F(EvalTest, CountsCharactersOfManyBytes) {
  std::string text;
  for (int i = 0; i < 120; ++i) text += i % 3 == 0 ? "\xc3\xa9" : "a";
  tmp_.Put("text.txt", text);
  FitText("architecture = \"fast_weights\"\n", "tokenizer = \"byte\"\n");
  const Ran ran = EvalText("text.txt");
  EXPECT_THAT(ran.out, HasSubstr("120 characters, 160 tokens"));
  tmp_.Put("bytes.txt", "a" + text.substr(1));  // begins within a character
  EXPECT_EQ(EvalText("bytes.txt").code, 0);
}

TEST_F(EvalTest, UnknownCharactersAreTreatedAsAskedOrAsTheModelSays) {
  FitText(kCausal, "unknown_characters = \"skip\"\n");
  EXPECT_THAT(RunTool({"inspect", Last()}).out, HasSubstr("unknown characters: skip"));
  tmp_.Put("known.txt", "aab cd\naab cd\n");
  tmp_.Put("unknown.txt", "aaXb cd\xe2\x82\xac\naab cd\n");
  tmp_.Put("spaces.txt", "aa b cd \naab cd\n");
  const Ran known = EvalText("known.txt");
  EXPECT_THAT(known.out, AllOf(HasSubstr("\n14 characters, 14 tokens"),
                               Not(HasSubstr("unknown"))));
  const Ran skipped = EvalText("unknown.txt");
  EXPECT_EQ(Nats(skipped), Nats(known));
  EXPECT_THAT(skipped.out, AllOf(HasSubstr("\n14 characters, 14 tokens"),
                                 HasSubstr("; unknown characters left out: 2")));
  const Ran replaced = EvalText("unknown.txt", {"--unknown-characters", "replace"});
  EXPECT_EQ(Nats(replaced), Nats(EvalText("spaces.txt")));
  EXPECT_THAT(replaced.out, AllOf(HasSubstr("\n16 characters, 16 tokens"),
                                  HasSubstr("; unknown characters replaced: 2")));
  const Ran refused = EvalText("unknown.txt", {"--unknown-characters", "refuse"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("unknown character 'X' (U+0058) at byte 2"));
  // Weights go from one run to another with another treatment.
  FitText(kCausal, StrCat("unknown_characters = \"replace\"\n"));
  fs::rename(tmp_.Path("run"), tmp_.Path("before"));
  const std::string from = StrCat("train.from=", tmp_.Path("before/last"));
  const Ran started = RunTool({"fit", "--config", tmp_.Path("run.toml"), "--out",
                               tmp_.Path("run"), "--threads", "1", "--set", from,
                               "--set", "data.unknown_characters=refuse"});
  EXPECT_EQ(started.code, 0) << started.err;
  EXPECT_THAT(RunTool({"inspect", Last()}).out,
              HasSubstr("unknown characters: refuse"));
}

TEST_F(EvalTest, NamesWhatIsWrongWithAText) {
  FitText(kCausal, "");
  const auto fails = [&](const Ran& ran, int code, const std::string& part) {
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(part));
    EXPECT_THAT(ran.out, Not(HasSubstr("nats")));
  };
  fails(Eval(), 2, "--text FILE");
  fails(EvalText("absent.txt"), 1, "absent.txt");
  tmp_.Put("one.txt", "a");
  fails(EvalText("one.txt"), 1, "two or more");
  tmp_.Put("empty.txt", "");
  fails(EvalText("empty.txt"), 1, "two or more");
  tmp_.Put("unknown.txt", "aabX");
  fails(EvalText("unknown.txt"), 1, "unknown character 'X' (U+0058) at byte 3");
  fails(EvalText("text.txt", {"--form", "both"}), 2, "--form");
  fails(EvalText("text.txt", {"--window=-1"}), 2, "--window");
  fails(RunTool({"eval", "--text", "a.txt"}), 2, "--checkpoint");
  fs::remove(fs::path(Last()) / "tokenizer.json");
  fs::remove(fs::path(Last()) / "manifest.json");
  fails(EvalText("text.txt"), 1, "no tokenizer.json");
}

constexpr char kEncoder[] =
    "architecture = \"encoder\"\nposition_kind = \"sinusoidal\"\npositions = 16\n"
    "norm_logits = true\n";
constexpr char kReverse[] =
    "task = \"reverse\"\nclasses = 4\nseq_len = 5\nbatch = 8\n"
    "training_sequences = 64\nvalidation_sequences = 9\ntest_sequences = 13\n";

TEST_F(EvalTest, TheTestPartOfTheReverseTask) {
  const std::string printed = Fit(kEncoder, kReverse);
  EXPECT_THAT(printed,
              AllOf(HasSubstr("reverse: 64 training, 9 validation and 13 test"),
                    HasSubstr("8 updates per epoch"),
                    ContainsRegex("validation [0-9.]+  accuracy 0\\.[0-9]+")));
  const Ran ran = Eval();
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("13 test sequences of 5 tokens"),
                             HasSubstr(" of 65 right")));
  EXPECT_NEAR(NumberAfter(ran.out, "loss "), NumberAfter(printed, "test: loss "),
              1.5e-4);
  EXPECT_EQ(NumberAfter(ran.out, "accuracy "), NumberAfter(printed, "accuracy "));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--text", "a.txt"},
        {"--form", "step"},
        {"--window", "3"}}) {
    const Ran refused = Eval(more);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("test sequences of its training"));
  }
  fs::remove(fs::path(Last()) / "manifest.json");
  fs::remove(fs::path(Last()) / "training/config.toml");
  const Ran bare = Eval();
  EXPECT_EQ(bare.code, 1);
  EXPECT_THAT(bare.err, HasSubstr("no training/config.toml"));
}

TEST_F(EvalTest, AttentionIsDrawnForEncoders) {
  Fit(kEncoder, kReverse);
  const std::string picture = tmp_.Path("maps.svg");
  const auto draw = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"attention", "--checkpoint", Last(), "--out", picture,
                               "--threads", "1", "--tokens"});
    return RunTool(more);
  };
  std::vector<std::string> pictures;
  for (const std::vector<std::string>& more : {std::vector<std::string>{"3,1,2"},
                                               {"3,1,2", "--maps", "notebook"},
                                               {"3,1,2", "--mask", "causal"}}) {
    const Ran ran = draw(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    pictures.push_back(ReadFile(picture, 1 << 20).value());
    EXPECT_THAT(pictures.back(), HasSubstr("layer 2, head 2"));
  }
  EXPECT_NE(pictures[0], pictures[1]);
  EXPECT_NE(pictures[0], pictures[2]);
  fs::remove(picture);
  const auto fails = [&](const Ran& ran, int code, const std::string& part) {
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(part));
    EXPECT_FALSE(fs::exists(picture));
  };
  fails(draw({"3,1,4"}), 1, "not in 0..3");
  fails(draw({"3,x"}), 2, "--tokens");
  fails(draw({StrJoin(std::vector<int>(17, 1), ",")}), 1, "limit of 16");
  fails(draw({StrJoin(std::vector<int>(513, 1), ",")}), 2, "at most 512");
  fails(draw({"3,1", "--maps", "all"}), 2, "--maps");
  FitText(kCausal, "");
  fails(draw({"1,2"}), 1, "autoregressive");
}

}  // namespace
}  // namespace mnemon
