// SPDX-License-Identifier: MIT
// The most memory that a process of `fit` holds.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

const std::vector<std::string> kCausal = {"model.architecture=causal",
                                          "model.projection=per_layer",
                                          "model.position_kind=learned"};

// Peak for one update of a model of width 256 with six layers, 512 tokens, 4 sequences.
double PeakMegabytes(const std::vector<std::string>& settings) {
  const TemporaryDirectory directory;
  const std::string out = directory.Path("run");
  std::vector<std::string> args = {MNEMON_TRAIN_BINARY,
                                   "fit",
                                   "--config",
                                   MNEMON_SOURCE_DIR
                                   "/train/configs/tasks/dihedral.toml",
                                   "--threads",
                                   "2",
                                   "--out",
                                   out};
  std::vector<std::string> all = {
      "data.seq_len=512",      "data.batch=4",      "data.training_sequences=4",
      "data.test_len=0",       "model.d_model=256", "data.validation_sequences=1",
      "data.test_sequences=1", "model.layers=6",    "model.d_ff=1024",
      "model.positions=1024",  "train.steps=1",     "model.heads=8"};
  all.insert(all.end(), settings.begin(), settings.end());
  for (const std::string& setting : all) {
    args.push_back("--set");
    args.push_back(setting);
  }
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage = {};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

TEST(TrainingMemory, FeedbackTakesNoMoreThanTwiceThatOfCausal) {
  const double causal = PeakMegabytes(kCausal);
  EXPECT_LE(PeakMegabytes({"model.architecture=feedback_shared"}), 2 * causal);
  EXPECT_LE(
      PeakMegabytes({"model.architecture=feedback", "model.projection=per_layer"}),
      2 * causal);
}

// Attention weights of all heads would be 0.4 GB.
TEST(TrainingMemory, CausalKeepsNoAttentionWeights) {
  const auto peak = [](const char* heads) {
    std::vector<std::string> settings = kCausal;
    settings.push_back(heads);
    return PeakMegabytes(settings);
  };
  EXPECT_LE(peak("model.heads=16"), 1.1 * peak("model.heads=1"));
}

// Entry states of chunks of 32 tokens: 4 MB in each of the six layers for every 64
// features; all states would be 32 times as much.
TEST(TrainingMemory, FastWeightsKeepAStateForEachChunk) {
  const auto peak = [](const char* order) {
    return PeakMegabytes({"model.architecture=fast_weights", "model.positions=4096",
                          "model.position_kind=none", "model.projection=per_layer",
                          order});
  };
  const double states = 6 * 3 * 4.2;  // those of nu = 4 beyond those of nu = 1
  const double more = peak("model.nu=4") - peak("model.nu=1");
  EXPECT_LE(more, 1.5 * states);
  EXPECT_GE(more, 0.5 * states) << "the settings have no effect";
}

}  // namespace
}  // namespace mnemon
