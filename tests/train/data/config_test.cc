// SPDX-License-Identifier: MIT
#include "train/data/config.h"

#include <filesystem>
#include <map>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] = R"(
out = "runs/x"
[model]
architecture = "causal"
d_model = 64
heads = 4
layers = 2
d_ff = 128
position_kind = "sinusoidal"
[data]
text = "a.txt"
seq_len = 32
[optimiser]
name = "adam_labml"
lr = 1
[schedule]
kind = "noam"
warmup = 2000
[train]
steps = 100
)";

absl::StatusOr<TrainConfig> Parse(const std::string& toml,
                                  const std::vector<std::string>& overrides = {}) {
  return ParseTrainConfig(toml, "run.toml", overrides);
}

// kGood with one line replaced, or added in front where `line` is empty.
std::string Changed(const std::string& line, const std::string& by) {
  std::string toml = kGood;
  size_t at = toml.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return toml.replace(at, line.size(), by);
}

TEST(TrainConfig, ReadsEveryKind) {
  auto config = Parse(kGood);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->out, "runs/x");
  EXPECT_EQ(config->model.architecture, "causal");
  EXPECT_EQ(config->model.d_model, 64);
  EXPECT_EQ(config->data.seq_len, 32);
  EXPECT_EQ(config->optimiser.kind, OptimiserKind::kAdamLabml);
  EXPECT_EQ(config->schedule.lr, 1.0);
  EXPECT_EQ(config->schedule.kind, ScheduleKind::kNoam);
  EXPECT_EQ(config->duration.steps, 100);
  EXPECT_EQ(config->data.loader, LoaderKind::kShuffled);
}

TEST(TrainConfig, OverridesWinInOrderAndOneDurationReplacesTheOthers) {
  auto config =
      Parse(kGood, {"optimiser.lr=0.25", "optimiser.lr=5e-1", "data.text=b=c.txt",
                    "train.seconds=75", "data.jitter=false", "train.precision=bf16"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->schedule.lr, 0.5);
  EXPECT_EQ(config->data.text, "b=c.txt");
  EXPECT_EQ(config->duration.steps, 0);
  EXPECT_EQ(config->duration.seconds, 75);
  EXPECT_FALSE(config->data.jitter);
  EXPECT_EQ(config->precision, Precision::kBf16);
}

TEST(TrainConfig, FeedbackSharedIsAnArchitecture) {
  std::string toml =
      Changed("position_kind = \"sinusoidal\"", "position_kind = \"relative\"");
  auto config = Parse(toml, {"model.architecture=feedback_shared"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.architecture, "feedback");
  EXPECT_EQ(config->model.projection, Projection::kShared);
}

TEST(TrainConfig, ErrorsNameFileKeyAndWhatItTakes) {
  struct Case {
    std::string line, by;
    std::vector<std::string> expected;
  };
  const std::vector<Case> cases = {
      {"seq_len = 32", "seq_ln = 32", {"data.seq_ln", "did you mean data.seq_len?"}},
      {"seq_len = 32", "colour = 1", {"unknown key data.colour"}},
      {"[data]", "[date]", {"unknown key date.text", "unknown key date.seq_len"}},
      {"seq_len = 32", "seq_len = 0", {"data.seq_len", "an integer from 1"}},
      {"seq_len = 32", "seq_len = -1", {"data.seq_len"}},
      {"seq_len = 32", "seq_len = 1.5", {"data.seq_len", "an integer"}},
      {"seq_len = 32", "seq_len = 99999999999999999999", {"line"}},
      {"seq_len = 32", "seq_len = \"32\"", {"data.seq_len must not stand in quotes"}},
      {"seq_len = 32", "seq_len = [32]", {"data.seq_len must be one value"}},
      {"seq_len = 32", "seq_len = true", {"data.seq_len"}},
      {"text = \"a.txt\"", "text = 7", {"data.text must be text in quotes"}},
      {"text = \"a.txt\"", "", {"data.text is missing"}},
      {"text = \"a.txt\"", "text = \"\"", {"data.text is missing"}},
      {"name = \"adam_labml\"",
       "name = \"adagrad\"",
       {"optimiser.name must be one of sgd, adam, adamw, adam_labml", "adagrad"}},
      {"lr = 1", "lr = nan", {"optimiser.lr"}},
      {"lr = 1", "lr = inf", {"optimiser.lr"}},
      {"lr = 1", "lr = -1", {"optimiser.lr", "a number from"}},
      {"lr = 1", "lr = 0", {"optimiser.lr"}},
      {"lr = 1", "momentum = 2", {"optimiser.momentum"}},
      {"warmup = 2000", "warmup = 0", {"schedule.warmup must be at least 1 for noam"}},
      {"steps = 100", "steps = 0", {"exactly one of train.steps"}},
      {"steps = 100", "steps = 1\nepochs = 1", {"exactly one of train.steps"}},
      {"steps = 100",
       "steps = 100\nprecision = \"fp16\"",
       {"train.precision must be one of fp32, bf16", "fp16"}},
      {"d_model = 64", "d_model = 65", {"heads"}},
      {"d_model = 64", "d_model = 0", {"d_model"}},
      {"d_model = 64", "d_model = \"a\"", {"model.d_model"}},
      {"d_model = 64", "vocab = 3", {"model.vocab", "the task decides"}},
      {"d_model = 64", "nu = 3", {"nu"}},
      {"d_model = 64", "dmodel = 64", {"did you mean model.d_model?"}},
      {"architecture = \"causal\"",
       "architecture = \"casual\"",
       {"model.architecture", "did you mean causal?"}},
      {"architecture = \"causal\"", "", {"model.architecture is missing"}},
      {"[train]", "[train", {"run.toml, line"}},
      {"[train]", "[data]", {"run.toml, line"}},
      {"steps = 100", "steps = 100\nsteps = 200", {"run.toml, line"}},
  };
  for (const Case& c : cases) {
    auto config = Parse(Changed(c.line, c.by));
    ASSERT_FALSE(config.ok()) << c.by;
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << c.by;
    const std::string message(config.status().message());
    EXPECT_THAT(message, HasSubstr("run.toml")) << c.by;
    for (const std::string& part : c.expected) {
      EXPECT_THAT(message, HasSubstr(part)) << c.by;
    }
  }
}

TEST(TrainConfig, AllFaultsAtOnce) {
  std::string toml = Changed("seq_len = 32", "seq_len = 0\nbatsh = 1");
  const std::string message(
      Parse(toml, {"train.seed", "optimiser.nam=sgd"}).status().message());
  for (const char* part :
       {"data.seq_len", "data.batsh", "did you mean data.batch?",
        "--set takes key=value, got 'train.seed'", "did you mean optimiser.name?"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(TrainConfig, PrintsWhatItReads) {
  auto config = Parse(kGood, {"sample.prompt=a \"quoted\"\\ line\n", "optimiser.lr=0.1",
                              "optimiser.eps=1e-8"});
  ASSERT_TRUE(config.ok()) << config.status();
  for (bool comments : {false, true}) {
    const std::string printed = FormatTrainConfig(*config, comments);
    auto back = Parse(printed);
    ASSERT_TRUE(back.ok()) << back.status() << printed;
    EXPECT_EQ(TrainFields(*back), TrainFields(*config));
    EXPECT_THAT(printed, HasSubstr("lr = 0.1"));
  }
}

constexpr char kReverse[] = R"(
[model]
architecture = "encoder"
d_model = 64
heads = 4
layers = 2
d_ff = 128
[data]
task = "reverse"
[train]
epochs = 1
)";

TEST(TrainConfig, EveryTaskHasItsKindOfModelAndData) {
  const auto reverse = Parse(kReverse);
  ASSERT_TRUE(reverse.ok()) << reverse.status();
  EXPECT_EQ(reverse->data.task, TaskKind::kReverse);
  EXPECT_EQ(reverse->data.classes, 10);
  const auto refused = [](const std::string& toml,
                          const std::vector<std::string>& overrides) {
    return std::string(Parse(toml, overrides).status().message());
  };
  EXPECT_THAT(refused(kReverse, {"data.text=a.txt"}), HasSubstr("its data are drawn"));
  EXPECT_THAT(refused(kReverse, {"data.loader=sequential"}), HasSubstr("data.loader"));
  EXPECT_THAT(refused(kReverse, {"model.architecture=causal"}),
              HasSubstr("needs an encoder"));
  EXPECT_THAT(refused(kReverse, {"data.classes=1"}), HasSubstr("data.classes"));
  EXPECT_THAT(refused(kReverse, {"data.test_sequences=0"}),
              HasSubstr("data.test_sequences"));
  EXPECT_THAT(refused(kReverse, {"data.task=sort"}),
              HasSubstr("data.task must be one of text, reverse"));
  EXPECT_THAT(refused(kReverse, {"data.task=dihedral"}),
              HasSubstr("data.task = dihedral needs an autoregressive one"));
  const auto drawn = [&](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"model.architecture=fast_weights"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return refused(kReverse, all);
  };
  EXPECT_EQ(drawn({"data.task=retrieval", "data.classes=5", "data.seq_len=11"}), "");
  EXPECT_THAT(drawn({"data.task=retrieval", "data.classes=5", "data.seq_len=10"}),
              HasSubstr("data.seq_len must be more than 10"));
  EXPECT_THAT(drawn({"data.task=retrieval", "data.classes=64", "data.seq_len=200"}),
              HasSubstr("model.d_model must be more than data.classes, 64"));
  EXPECT_THAT(drawn({"data.task=capacity", "data.classes=5", "data.seq_len=11"}),
              HasSubstr("data.seq_len must be 10"));
  EXPECT_THAT(drawn({"data.task=copy", "data.seq_len=8", "data.distance=9"}),
              HasSubstr("data.loader must be sequential"));
  EXPECT_THAT(drawn({"data.task=copy", "data.seq_len=8", "data.distance=8",
                     "data.loader=sequential"}),
              HasSubstr("data.distance must be more than data.seq_len"));
  EXPECT_THAT(drawn({"data.task=copy", "data.seq_len=8", "data.distance=9",
                     "data.loader=sequential", "data.test_len=9"}),
              HasSubstr("data.test_len does not go with"));
  EXPECT_THAT(refused(kReverse, {"data.task=text", "data.text=a.txt"}),
              HasSubstr("needs an autoregressive one"));
  EXPECT_THAT(refused(kGood, {"data.task=reverse"}), HasSubstr("its data are drawn"));
}

TEST(TrainConfig, MissingFilesAreNamed) {
  const absl::Status status = LoadTrainConfig("/no/such.toml", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such.toml"));
}

TEST(TrainConfig, EveryCommittedConfigurationIsValid) {
  namespace fs = std::filesystem;
  std::map<std::string, TrainConfig> configs;
  for (const auto& entry :
       fs::recursive_directory_iterator(MNEMON_SOURCE_DIR "/train/configs")) {
    if (entry.path().extension() != ".toml") continue;
    std::vector<std::string> text = {"data.text=a.txt"};
    if (entry.path().parent_path().stem() == "tasks") text.clear();
    auto config = LoadTrainConfig(entry.path(), text);
    EXPECT_TRUE(config.ok()) << config.status();
    if (config.ok()) configs[entry.path().stem()] = *config;
  }
  for (const char* name :
       {"causal", "fast_weights", "feedback", "feedback_shared", "transformer_xl"}) {
    EXPECT_TRUE(configs.contains(name)) << name;
    EXPECT_TRUE(configs.contains(StrCat(name, "-small"))) << name;
    // The reference experiments are those of labml.
    const TrainConfig& reference = configs[name];
    EXPECT_EQ(reference.optimiser.kind, OptimiserKind::kAdamLabml) << name;
    EXPECT_EQ(reference.schedule.kind, ScheduleKind::kNoam) << name;
    EXPECT_EQ(reference.init, Initialisation::kReference) << name;
    EXPECT_EQ(reference.clip, 1.0) << name;
  }
  // The notebook's experiment.
  const TrainConfig& reverse = configs.at("reverse");
  EXPECT_EQ(reverse.optimiser.kind, OptimiserKind::kAdam);
  EXPECT_EQ(reverse.schedule.kind, ScheduleKind::kCosine);
  EXPECT_EQ(reverse.schedule.warmup, 100);
  EXPECT_EQ(reverse.clip, 5.0);
  EXPECT_EQ(reverse.data.training_sequences, 50000);
}

}  // namespace
}  // namespace mnemon
