// SPDX-License-Identifier: MIT
// mnemon-bench as a user runs it: short, on the smallest size.
#include "base/process/child_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/io/checkpoint.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/patience.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Ran {
  int code;
  std::string out;
  std::string err;
};

class BenchBinaryTest : public testing::Test {
 protected:
  Ran Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), MNEMON_BENCH_BINARY);
    ChildProcess child(tmp_.path(), arguments);
    const int code = child.Wait(kPatience).value_or(-1);
    return {code, child.out(), child.err()};
  }

  // The document of a run that must succeed.
  json Measure(std::vector<std::string> arguments) {
    for (const char* more : {"--json", "--threads", "1"}) arguments.push_back(more);
    const Ran ran = Run(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(ran.out, nullptr, /*allow_exceptions=*/false);
  }

  TemporaryDirectory tmp_;
};

// On a machine with other load, shares of what was measured at another moment may be
// above one.
void ExpectSustained(const json& result) {
  EXPECT_GT(result["sustained_gflops"], 0);
  EXPECT_GT(result["sustained_share"], 0);
}

// What every measurement reports about the machine.
void ExpectCeilings(const json& document) {
  EXPECT_EQ(document["threads"], 1);
  for (const char* when : {"before", "after"}) {
    EXPECT_GT(document["fma_gflops"][when], 0);
    EXPECT_GT(document["memory_gbytes"][when], 0);
    for (const json& result : document["results"]) {
      EXPECT_GT(result["read_gbytes"][when], 0);
    }
  }
}

TEST_F(BenchBinaryTest, StepOfEveryArchitecture) {
  const json document = Measure(
      {"step", "--arch", "feedback,feedback_shared,fast_weights,transformer_xl,causal",
       "--size", "XS", "--context", "100", "--batch", "16", "--seconds", "0.05"});
  ASSERT_EQ(document["results"].size(), 5u);
  EXPECT_EQ(document["command"], "step");
  ExpectCeilings(document);
  EXPECT_EQ(document["results"][1]["architecture"], "feedback_shared");
  const json& causal = document["results"][4];
  EXPECT_EQ(causal["weight_bytes"], 4 * 809728);
  // Weights that are multiplied, as in floor_test.
  EXPECT_NEAR(causal["sustained_share"].get<double>() *
                  causal["sustained_gflops"].get<double>(),
              2e-3 * 16 * 802816 / causal["step_us"]["median"].get<double>(), 1e-6);
  for (const json& result : document["results"]) {
    EXPECT_EQ(result["batch"], 16);
    EXPECT_EQ(result["context"], 100);
    EXPECT_EQ(result["precision"], "fp32");
    EXPECT_GE(result["steps"], 1);
    const json& step = result["step_us"];
    EXPECT_GT(step["min"], 0);
    EXPECT_LE(step["min"], step["q25"]);
    EXPECT_LE(step["q25"], step["median"]);
    EXPECT_LE(step["median"], step["q75"]);
    EXPECT_LE(step["q75"], step["p99"]);
    EXPECT_NEAR(result["tokens_per_second"].get<double>(),
                16e6 / step["median"].get<double>(), 1e-3);
    EXPECT_NEAR(
        result["floor_share"].get<double>(),
        result["floor_us"]["floor"].get<double>() / step["median"].get<double>(), 1e-9);
    EXPECT_GT(result["floor_share"], 0);
    ExpectSustained(result);
    EXPECT_TRUE(result["allocations_per_step"].is_number());
    EXPECT_GT(result["cpu_us_per_step"], 0);
  }
}

TEST_F(BenchBinaryTest, Linear) {
  const json document = Measure({"linear", "--arch", "causal,feedback_shared", "--size",
                                 "XS", "--batch", "3", "--seconds", "0.05"});
  ASSERT_EQ(document["results"].size(), 2u);
  ExpectCeilings(document);
  // Weights that are multiplied, as in floor_test.
  const int64_t multiplied[] = {802816, 704512};
  for (int i = 0; i < 2; ++i) {
    const json& result = document["results"][i];
    EXPECT_EQ(result["weight_bytes"], 4 * multiplied[i]);
    EXPECT_GE(result["passes"], 1);
    const double us = result["pass_us"]["median"].get<double>();
    EXPECT_NEAR(result["gflops"].get<double>(), 2e-3 * 3 * multiplied[i] / us, 1e-3);
    EXPECT_NEAR(result["gbytes"].get<double>(), 4e-3 * multiplied[i] / us, 1e-3);
    EXPECT_GT(result["fma_share"], 0);
    ExpectSustained(result);
    EXPECT_NEAR(
        result["sustained_share"].get<double>(),
        result["gflops"].get<double>() / result["sustained_gflops"].get<double>(),
        1e-6);
    EXPECT_GT(result["read_share"], 0);
  }
}

// Shares are of multiply-adds of int8 then, and floors of their rate.
TEST_F(BenchBinaryTest, KernelsAndEngineInInt8) {
  for (const char* command : {"linear", "engine"}) {
    std::vector<std::string> arguments = {
        command,   "--arch", "fast_weights", "--size", "XS", "--seconds", "0.2",
        "--batch", "2",      "--precision",  "int8"};
    if (command != std::string("linear")) {
      arguments.insert(arguments.end(), {"--context", "4"});
    }
    const json document = Measure(arguments);
    ASSERT_EQ(document["results"].size(), 1u) << command;
    const json& result = document["results"][0];
    EXPECT_EQ(result["precision"], "int8") << command;
    EXPECT_GT(document["int8_gops"]["before"], 0);
    EXPECT_GT(document["int8_gops"]["after"], 0);
    ExpectSustained(result);
  }
}

TEST_F(BenchBinaryTest, Prefill) {
  const json document = Measure({"prefill", "--arch", "transformer_xl", "--size", "XS",
                                 "--context", "20", "--seconds", "0.1"});
  ASSERT_EQ(document["results"].size(), 1u);
  ExpectCeilings(document);
  const json& result = document["results"][0];
  EXPECT_GE(result["prompts"], 1);
  EXPECT_NEAR(result["tokens_per_second"].get<double>(),
              20e3 / result["prompt_ms"]["median"].get<double>(), 1e-3);
  EXPECT_GT(result["floor_share"], 0);
  ExpectSustained(result);
  // 20 tokens of a prompt, the head once.
  EXPECT_NEAR(
      result["sustained_share"].get<double>() *
          result["sustained_gflops"].get<double>(),
      2e-6 * (20 * 786432 + 16384) / result["prompt_ms"]["median"].get<double>(), 1e-6);
}

TEST_F(BenchBinaryTest, Engine) {
  const json document =
      Measure({"engine", "--arch", "fast_weights,causal", "--size", "XS", "--batch",
               "3", "--context", "6", "--max-tokens", "5", "--seconds", "1"});
  ASSERT_EQ(document["results"].size(), 2u);
  ExpectCeilings(document);
  for (const json& result : document["results"]) {
    EXPECT_GE(result["rounds"], 1);
    EXPECT_GT(result["tokens_per_second"]["median"], 0);
    EXPECT_GT(result["first_token_ms"]["median"], 0);
    EXPECT_LE(result["first_token_ms"]["median"], result["first_token_ms"]["p99"]);
    EXPECT_LE(result["inter_token_us"]["median"], result["inter_token_us"]["p99"]);
    for (const char* share :
         {"floor_share", "first_token_floor_share", "inter_token_floor_share"}) {
      EXPECT_GT(result[share], 0) << share;
    }
    ExpectSustained(result);
    EXPECT_TRUE(result["allocations_per_token"].is_number());
    EXPECT_GT(result["cpu_us_per_token"], 0);
  }
}

TEST_F(BenchBinaryTest, ATableForPeople) {
  const Ran ran = Run({"step", "--arch", "causal", "--size", "XS", "--context", "4",
                       "--seconds", "0.01", "--threads", "1"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("architecture  size  batch"));
  EXPECT_THAT(ran.out, HasSubstr("of sustained"));
  EXPECT_THAT(ran.out, HasSubstr("causal          XS"));
  EXPECT_THAT(ran.out, HasSubstr("fma_gflops.before "));
}

TEST_F(BenchBinaryTest, Checkpoint) {
  const std::string out = tmp_.Path("checkpoint");
  const Ran ran =
      Run({"checkpoint", "--arch", "feedback_shared", "--size", "XS", "--out", out});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto files = ReadCheckpoint(out);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->config.architecture, "feedback");
  EXPECT_EQ(files->config.projection, Projection::kShared);
  EXPECT_FALSE(files->tokenizer_json.has_value());
}

TEST_F(BenchBinaryTest, CheckpointOfAnEncoderWithOtherFields) {
  const std::string out = tmp_.Path("checkpoint");
  const Ran ran = Run({"checkpoint", "--arch", "encoder", "--size", "XS", "--set",
                       "layers=1", "--set", "positions=64", "--out", out});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto files = ReadCheckpoint(out);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->config.architecture, "encoder");
  EXPECT_EQ(files->config.layers, 1);
  EXPECT_EQ(files->config.positions, 64);
  EXPECT_THAT(Run({"checkpoint", "--arch", "causal", "--size", "XS", "--set",
                   "layerz=1", "--out", out})
                  .err,
              HasSubstr("layerz"));
}

TEST_F(BenchBinaryTest, UsageErrorsNameTheFlag) {
  const std::vector<std::string> good = {"step", "--arch", "causal", "--size", "XS"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), good.begin(), good.end());
    return Run(more);
  };
  const std::pair<Ran, const char*> cases[] = {
      {Run({"step", "--arch", "lstm", "--size", "XS"}), "--arch"},
      {Run({"step", "--arch", "causal"}), "--size"},
      {Run({"engine", "--arch", "causal", "--size", "XXL"}), "--size"},
      {with({"--batch", "0"}), "--batch"},
      {with({"--seconds", "nan"}), "--seconds"},
      {with({"--precision", "fp8"}), "--precision"},
      {with({"--max-tokens", "3"}), "--max-tokens"}};
  for (const auto& [ran, flag] : cases) {
    EXPECT_EQ(ran.code, 2) << flag;
    EXPECT_THAT(ran.err, HasSubstr(flag));
    EXPECT_EQ(ran.out, "") << flag;
  }
}

TEST_F(BenchBinaryTest, FailuresAreExitCodeOne) {
  const Ran context = Run({"step", "--arch", "causal", "--size", "XS", "--context",
                           "4096", "--seconds", "0.01"});
  EXPECT_EQ(context.code, 1);
  EXPECT_THAT(context.err, HasSubstr("4096"));
  const Ran late = Run({"prefill", "--arch", "feedback", "--size", "S", "--context",
                        "4000", "--seconds", "0.01"});
  EXPECT_EQ(late.code, 1);
  EXPECT_THAT(late.err, HasSubstr("--seconds"));
}

TEST_F(BenchBinaryTest, HelpAndVersion) {
  for (const char* command : {"step", "prefill", "engine", "checkpoint"}) {
    const Ran help = Run({command, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_LT(help.out.find("Examples:\n  mnemon-bench "), help.out.find("--arch"))
        << help.out;
  }
  const Ran version = Run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, HasSubstr("mnemon-bench 0.1.0"));
}

TEST_F(BenchBinaryTest, SamplingAllocatesNothing) {
  const Ran ran = Run({"sampling", "--vocab", "3000", "--seconds", "0.02", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json document = json::parse(ran.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_GE(document["results"].size(), 10u);
  for (const json& result : document["results"]) {
    EXPECT_GT(result["token_us"]["median"], 0) << result;
    EXPECT_EQ(result["allocations"], 0) << result;
  }
}

}  // namespace
}  // namespace mnemon
