// SPDX-License-Identifier: MIT
// `score --form step` writes the same file on every target, with any number of threads.
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/io/checkpoint.h"
#include "model/io/safetensors.h"
#include "model/operations/cpu_operations.h"
#include "model/sequence/tensors.h"
#include "tests/model/decoder/variants.h"
#include "tests/model/io/temporary_directory.h"
#include "tests/train/commands/run_tool.h"

namespace mnemon {
namespace {

// Sizes that fill no panel, slices of 64 inputs with a rest, heads wide enough for
// int8.
constexpr char kSizes[] =
    R"("d_model": 72, "heads": 3, "layers": 2, "d_ff": 150, "vocab": 37)";

struct Architecture {
  const char* name;
  const char* keys;  // of config.json, after kSizes
};

std::ostream& operator<<(std::ostream& out, const Architecture& a) {
  return out << a.name;
}

class ScoreTargetsTest : public testing::TestWithParam<Architecture> {
 protected:
  ScoreTargetsTest() {
    const ModelConfig config =
        ParseConfig(std::string("{") + kSizes + ", " + GetParam().keys + "}").value();
    const std::unique_ptr<Model> model = MakeTestModel(config);
    EXPECT_TRUE(WriteCheckpoint(checkpoint(),
                                {{"config.json", ConfigToJson(config)},
                                 {"model.safetensors", FormatWeights(*model).value()}})
                    .ok());
    // Two sessions of more than four blocks, and of more than one call.
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < 2 * 70; ++i) tokens.push_back(i * i % 31 + i % 7);
    const TensorToWrite array = {"tokens",
                                 DType::kI64,
                                 {2, 70},
                                 {reinterpret_cast<const char*>(tokens.data()),
                                  tokens.size() * sizeof(int64_t)}};
    tmp_.Put("tokens.safetensors", FormatSafetensors({&array, 1}).value());
  }
  std::string checkpoint() const { return tmp_.Path("checkpoint"); }

  // The bytes of the file.
  std::string Score(const std::string& precision, const std::string& target,
                    int threads) const {
    const Ran ran =
        RunTool({"score", "--checkpoint", checkpoint(), "--tokens",
                 tmp_.Path("tokens.safetensors"), "--out", tmp_.Path("out.safetensors"),
                 "--form", "step", "--precision", precision, "--target", target,
                 "--threads", std::to_string(threads)});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return tmp_.Get("out.safetensors");
  }

  const TemporaryDirectory tmp_;
};

TEST_P(ScoreTargetsTest, TheFileIsTheSame) {
  std::vector<std::string> targets = CpuTargets();
  std::erase(targets, "reference");
  std::vector<std::string> files;
  for (const char* precision : {"fp32", "bf16", "int8"}) {
    const std::string wanted = Score(precision, targets[0], 1);
    // Not EXPECT_EQ and EXPECT_NE, which would print them.
    for (const std::string& other : files) EXPECT_TRUE(wanted != other) << precision;
    files.push_back(wanted);
    for (const std::string& target : targets) {
      for (int threads = 1; threads <= 3; ++threads) {
        EXPECT_TRUE(Score(precision, target, threads) == wanted)
            << precision << " " << target << " " << threads;
      }
    }
  }
}

constexpr Architecture kArchitectures[] = {
    {"causal",
     R"("architecture": "causal", "positions": 80, "position_kind": "alibi")"},
    {"fast_weights", R"("architecture": "fast_weights", "nu": 2)"},
    {"transformer_xl", R"("architecture": "transformer_xl", "positions": 80,
                          "position_kind": "relative", "mem_len": 20)"},
    {"feedback", R"("architecture": "feedback", "positions": 80,
                    "position_kind": "relative")"},
    {"feedback_shared", R"("architecture": "feedback", "positions": 80,
                           "position_kind": "relative", "projection": "shared")"},
};

INSTANTIATE_TEST_SUITE_P(Architectures, ScoreTargetsTest,
                         testing::ValuesIn(kArchitectures),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mnemon
