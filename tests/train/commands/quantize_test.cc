// SPDX-License-Identifier: MIT
// quantize as a user runs it, and its checkpoint in every command that reads one.
#include <filesystem>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/io/checkpoint.h"
#include "model/io/safetensors.h"
#include "tests/model/io/temporary_directory.h"
#include "tests/train/commands/run_tool.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// A run of a tiny model, and what is made of it.
class QuantizeTest : public testing::Test {
 protected:
  void Fit(const std::string& model) {
    std::string text;
    for (int i = 0; i < 60; ++i) text += StrCat("the cat ", i % 7, "\n");
    tmp_.Put("text.txt", text);
    const std::string data =
        StrCat("[data]\ntext = \"", tmp_.Path("text.txt"), "\"\nseq_len = 8\n",
               "batch = 1\n[sample]\ntokens = 0\n");
    tmp_.Put("run.toml", StrCat("[model]\nd_model = 16\nheads = 2\nlayers = 2\n",
                                "d_ff = 24\n", model, data, "[train]\nsteps = 3\n"));
    const Ran ran = RunTool(FitArguments());
    ASSERT_EQ(ran.code, 0) << ran.err;
    source_ = fs::canonical(tmp_.Path("run/last"));
  }
  std::vector<std::string> FitArguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"fit",   "--config",       tmp_.Path("run.toml"),
                                    "--out", tmp_.Path("run"), "--threads",
                                    "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string Int8() const { return tmp_.Path("int8"); }
  Ran Quantize(const std::string& from, const std::string& to,
               std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"quantize", from, "--out", to});
    return RunTool(more);
  }
  // The same command for both checkpoints, the source with --precision int8.
  std::pair<Ran, Ran> Both(const std::string& command,
                           std::vector<std::string> more) const {
    more.insert(more.begin(), {command, "--checkpoint", Int8(), "--threads", "1"});
    const Ran stored = RunTool(more);
    more[2] = source_;
    more.insert(more.end(), {"--precision", "int8"});
    return {stored, RunTool(more)};
  }

  const TemporaryDirectory tmp_;
  std::string source_;
};

constexpr char kLearnedCausal[] =
    "architecture = \"causal\"\nposition_kind = \"learned\"\n";

TEST_F(QuantizeTest, WritesWhatStepsReadAsTheSourceInInt8) {
  for (const std::string& model :
       {std::string(kLearnedCausal), std::string("architecture = \"fast_weights\"\n"),
        std::string("architecture = \"transformer_xl\"\nposition_kind = \"relative\"\n"
                    "mem_len = 8\npositions = 32\n"),
        std::string("architecture = \"feedback\"\nposition_kind = \"relative\"\n"
                    "positions = 32\n"),
        std::string("architecture = \"feedback_shared\"\n"
                    "position_kind = \"relative\"\npositions = 32\n")}) {
    SCOPED_TRACE(model);
    fs::remove_all(tmp_.Path("run"));
    fs::remove_all(Int8());
    Fit(model);
    const Ran ran = Quantize(source_, Int8(), {"--precision", "int8"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    const std::string id = ReadCheckpoint(source_)->verified.get()->model_id;
    EXPECT_EQ(
        ran.out,
        StrCat(Int8(), ": int8, ", fs::file_size(Int8() + "/model.safetensors"),
               " bytes of weights in place of ",
               fs::file_size(source_ + "/model.safetensors"), "; model_id ", id, "\n"));
    EXPECT_EQ(tmp_.Get("int8/config.json"),
              tmp_.Get(StrCat("run/", fs::path(source_).filename().string(),
                              "/config.json")));

    const auto [stored, made] =
        Both("sample", {"--prompt", "the ", "--tokens", "40", "--seed", "1", "--ids"});
    EXPECT_EQ(stored.code, 0) << stored.err;
    EXPECT_EQ(stored.out, made.out);
    EXPECT_GT(stored.out.size(), 40u);
    const auto [eval_stored, eval_made] =
        Both("eval", {"--text", tmp_.Path("text.txt"), "--form", "step"});
    EXPECT_EQ(eval_stored.code, 0) << eval_stored.err;
    EXPECT_EQ(eval_stored.out, eval_made.out);
    EXPECT_THAT(eval_stored.out, HasSubstr("windows of 8 tokens"));

    const Ran inspect = RunTool({"inspect", Int8()});
    EXPECT_EQ(inspect.code, 0) << inspect.err;
    EXPECT_THAT(
        inspect.out,
        AllOf(HasSubstr(id), ContainsRegex("numerics_id +step/int8/r"),
              ContainsRegex("precision +int8; the model_id is that of the fp32"),
              ContainsRegex("layers.0.ff.in.weight +\\[24, 16\\] +384 +int8\n"),
              ContainsRegex("layers.0.ff.in.weight.scale +\\[24\\] +24\n"),
              HasSubstr("bytes of a session")));
    // The same parameters in fewer bytes.
    const auto total = [](const std::string& out) {
      return out.substr(out.find("  total"), 60);
    };
    const Ran source = RunTool({"inspect", source_});
    EXPECT_THAT(source.out, ContainsRegex("precision +fp32\n"));
    EXPECT_EQ(std::atoll(total(inspect.out).c_str() + 7),
              std::atoll(total(source.out).c_str() + 7));
  }
}

TEST_F(QuantizeTest, ScoresTheSameLogits) {
  Fit(kLearnedCausal);
  ASSERT_EQ(Quantize(tmp_.Path("run"), Int8()).code, 0);  // of a run, int8 unasked
  const std::vector<int64_t> ids = {1, 2, 3, 4, 5, 0};
  const TensorToWrite tokens = {
      "tokens",
      DType::kI64,
      {2, 3},
      {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int64_t)}};
  tmp_.Put("in.safetensors", FormatSafetensors({&tokens, 1}).value());
  const std::string in = tmp_.Path("in.safetensors"),
                    out = tmp_.Path("out.safetensors");
  std::vector<std::string> command = {"score", "--checkpoint", Int8(), "--tokens",
                                      in,      "--out",        out,    "--form",
                                      "step",  "--threads",    "1"};
  EXPECT_EQ(RunTool(command).code, 0);
  const std::string stored = tmp_.Get("out.safetensors");
  command[2] = source_;
  EXPECT_EQ(RunTool(command).code, 0);
  EXPECT_NE(tmp_.Get("out.safetensors"), stored);
  command.insert(command.end(), {"--precision", "int8"});
  EXPECT_EQ(RunTool(command).code, 0);
  EXPECT_EQ(tmp_.Get("out.safetensors"), stored);
}

TEST_F(QuantizeTest, WhatComputesInFp32SaysThatItNeedsTheSource) {
  Fit(kLearnedCausal);
  ASSERT_EQ(Quantize(source_, Int8()).code, 0);
  const auto refuses = [&](const Ran& ran, const std::string& part) {
    EXPECT_EQ(ran.code, 1);
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, AllOf(HasSubstr(part), HasSubstr("int8")));
  };
  const std::string text = tmp_.Path("text.txt"), fp32 = "need the fp32 checkpoint";
  refuses(RunTool({"eval", "--checkpoint", Int8(), "--text", text}), fp32);
  refuses(RunTool({"sample", "--checkpoint", Int8(), "--prompt", "t", "--tokens", "1",
                   "--decoder", "sequence"}),
          fp32);
  for (const char* precision : {"fp32", "bf16"}) {
    refuses(RunTool({"sample", "--checkpoint", Int8(), "--prompt", "t", "--tokens", "1",
                     "--precision", precision}),
            StrCat("--precision ", precision, ": model.safetensors holds int8"));
  }
  refuses(Quantize(Int8(), tmp_.Path("again")), "is an int8 checkpoint already");
  EXPECT_FALSE(fs::exists(tmp_.Path("again")));
  // Replaces the checkpoint from which a run would continue.
  fs::remove_all(source_);
  fs::copy(Int8(), source_, fs::copy_options::recursive);
  const Ran resumed = RunTool(FitArguments({"--resume"}));
  refuses(resumed, fp32);
  EXPECT_THAT(resumed.err, HasSubstr(fs::path(source_).filename().string()));
}

TEST_F(QuantizeTest, AnEncoderPredictsFromInt8) {
  tmp_.Put("run.toml",
           "[model]\narchitecture = \"encoder\"\nposition_kind = \"sinusoidal\"\n"
           "d_model = 16\nheads = 2\nlayers = 1\nd_ff = 16\npositions = 16\n"
           "[data]\ntask = \"reverse\"\nclasses = 5\nseq_len = 6\nbatch = 2\n"
           "training_sequences = 8\nvalidation_sequences = 4\ntest_sequences = 4\n"
           "[train]\nsteps = 2\n");
  const Ran fitted = RunTool(FitArguments());
  ASSERT_EQ(fitted.code, 0) << fitted.err;
  ASSERT_EQ(Quantize(tmp_.Path("run"), Int8()).code, 0);
  const Ran drawn = RunTool({"attention", "--checkpoint", Int8(), "--tokens", "1,2,3",
                             "--out", tmp_.Path("maps.svg")});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(tmp_.Get("maps.svg"), HasSubstr("<svg"));
  EXPECT_THAT(RunTool({"inspect", Int8()}).out, HasSubstr("head.in.weight.scale"));
  const Ran eval = RunTool({"eval", "--checkpoint", Int8()});
  EXPECT_EQ(eval.code, 1);
  EXPECT_THAT(eval.err, HasSubstr("need the fp32 checkpoint"));
}

TEST_F(QuantizeTest, NamesWhatIsWrong) {
  Fit(kLearnedCausal);
  for (const char* precision : {"fp32", "bf16", "int4", ""}) {
    const Ran ran = Quantize(source_, Int8(), {"--precision", precision});
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr(StrCat("--precision '", precision,
                                          "' has no checkpoint of its own: use int8")));
  }
  EXPECT_EQ(RunTool({"quantize", source_}).code, 2);
  EXPECT_EQ(RunTool({"quantize", "--out", Int8()}).code, 2);
  const Ran none = Quantize(tmp_.Path("none"), Int8());
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("/none'"));
  EXPECT_FALSE(fs::exists(Int8()));

  // What is there stays: itself, another checkpoint, a file, a link to nothing.
  ASSERT_EQ(Quantize(source_, Int8() + "/").code, 0);
  tmp_.Put("file", "content");
  fs::create_symlink("nothing", tmp_.Path("link"));
  const std::string weights = tmp_.Get("int8/model.safetensors");
  for (const std::string& there :
       {source_, Int8(), tmp_.Path("run"), tmp_.Path("file"), tmp_.Path("link")}) {
    const Ran ran = Quantize(source_, there);
    EXPECT_EQ(ran.code, 1) << there;
    EXPECT_THAT(ran.err, HasSubstr(StrCat("'", there, "' exists; not replaced")));
  }
  EXPECT_EQ(tmp_.Get("int8/model.safetensors"), weights);
  EXPECT_EQ(tmp_.Get("file"), "content");
  EXPECT_TRUE(fs::is_symlink(tmp_.Path("link")));
  EXPECT_FALSE(ReadCheckpoint(source_)->int8);
  fs::create_directory(tmp_.Path("empty"));
  EXPECT_EQ(Quantize(source_, tmp_.Path("empty")).code, 0);
  EXPECT_EQ(Quantize(source_, tmp_.Path("new/folder")).code, 0);

  // Damage is found before anything is written.
  std::string bad = weights;
  bad.back() ^= 1;
  tmp_.Put("int8/model.safetensors", bad);
  EXPECT_EQ(RunTool({"inspect", Int8()}).code, 1);
  fs::resize_file(source_ + "/model.safetensors", 100);
  const Ran damaged = Quantize(source_, tmp_.Path("damaged"));
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("model.safetensors"));
  EXPECT_FALSE(fs::exists(tmp_.Path("damaged")));

  const Ran help = RunTool({"quantize", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("mnemon-train quantize run/best --precision int8"));
}

}  // namespace
}  // namespace mnemon
