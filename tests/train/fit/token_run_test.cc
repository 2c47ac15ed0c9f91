// SPDX-License-Identifier: MIT
// The real binary on a text and on its token file: the same run to the bit, also killed
// and resumed, with the text in one shard and in several.
#include <signal.h>
#include <sys/resource.h>

#include "gmock/gmock.h"
#include "tests/train/run/trainer_run.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

class TokenRun : public TrainerRun {
 protected:
  int Tokenize(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {MNEMON_TRAIN_BINARY, "tokenize"});
    return Wait(StartProgram(std::move(arguments)));
  }
  void ExpectSameRun(const fs::path& a, const fs::path& b) {
    EXPECT_EQ(ExactMetrics(a), ExactMetrics(b));
    EXPECT_EQ(Content(a / "last/model.safetensors"),
              Content(b / "last/model.safetensors"));
    EXPECT_EQ(Content(a / "last/tokenizer.json"), Content(b / "last/tokenizer.json"));
  }
};

TEST_F(TokenRun, TheSameBitsAsTheText) {
  ASSERT_EQ(Tokenize({root_ / "text.txt", "--out", root_ / "t.tokens"}), 0) << Output();
  EXPECT_THAT(Output(), HasSubstr("characters: newline space ,"));
  const std::string tokens = "data.text=" + (root_ / "t.tokens").string();
  for (const std::string shard : {"4294967296", "500"}) {
    for (const size_t architecture : {0, 1}) {
      WriteConfig(AllArchitectures()[architecture], 25);
      const std::string sharding = "data.shuffle_shard=" + shard;
      const fs::path a = root_ / ("text-" + shard + std::to_string(architecture)),
                     b = root_ / ("tokens-" + shard + std::to_string(architecture));
      ASSERT_EQ(Run(a, {"--set", sharding}), 0) << Output();
      ASSERT_EQ(Run(b, {"--set", sharding, "--set", tokens}), 0) << Output();
      ExpectSameRun(a, b);
    }
  }
  // A run has the tokenizer of its text.
  ASSERT_EQ(Tokenize({root_ / "text.txt", "--out", root_ / "again.tokens",
                      "--tokenizer", root_ / "text-5000"}),
            0)
      << Output();
  EXPECT_EQ(Content(root_ / "again.tokens"), Content(root_ / "t.tokens"));
  EXPECT_NE(ExactMetrics(root_ / "text-5000"),
            ExactMetrics(root_ / "text-42949672960"));
}

TEST_F(TokenRun, KilledAndResumedInShards) {
  ASSERT_EQ(Tokenize({root_ / "text.txt", "--out", root_ / "t.tokens"}), 0) << Output();
  WriteConfig(AllArchitectures()[0], 150);
  const std::vector<std::string> text = {"--set", "data.shuffle_shard=300"};
  std::vector<std::string> tokens = text;
  tokens.insert(tokens.end(), {"--set", "data.text=" + (root_ / "t.tokens").string()});
  ASSERT_EQ(Run(root_ / "calm", text), 0) << Output();
  const fs::path out = root_ / "killed";
  std::mt19937 random(std::random_device{}());
  tokens.push_back("--resume");
  for (int round = 0; round < 4; ++round) {
    const pid_t child = Start(out, tokens);
    if (WaitForCheckpoint(child, out)) {
      std::this_thread::sleep_for(milliseconds(random() % 100));
      kill(child, SIGKILL);
    }
    Wait(child);
  }
  // The content is the same: a run may go on with the text.
  threads_ = 1;
  std::vector<std::string> resumed = text;
  resumed.push_back("--resume");
  ASSERT_EQ(Run(out, resumed), 0) << Output();
  ExpectSameRun(root_ / "calm", out);
  EXPECT_EQ(Run(out, {"--resume"}), 1);
  EXPECT_THAT(Output(), HasSubstr("data.shuffle_shard was 300 and is now 4294967296"));
  std::ofstream(root_ / "other.txt") << Content(root_ / "text.txt") << "more";
  ASSERT_EQ(Tokenize({root_ / "other.txt", "--out", root_ / "t.tokens"}), 0);
  EXPECT_EQ(Run(out, tokens), 1);
  EXPECT_THAT(Output(), HasSubstr("the content of data.text has changed"));
}

TEST_F(TokenRun, NoTextIsReplaced) {
  const std::string before = Content(root_ / "text.txt");
  EXPECT_EQ(Tokenize({root_ / "text.txt", "--out", root_ / "text.txt"}), 1);
  EXPECT_THAT(Output(), HasSubstr("exists and is not a token file; not replaced"));
  EXPECT_EQ(Content(root_ / "text.txt"), before);
  ASSERT_EQ(Tokenize({root_ / "text.txt", "--out", root_ / "t.tokens"}), 0) << Output();
  EXPECT_EQ(Tokenize({root_ / "text.txt", "--out", root_ / "t.tokens"}), 0) << Output();
  EXPECT_EQ(Tokenize({root_ / "t.tokens", "--out", root_ / "u.tokens"}), 1);
  EXPECT_THAT(Output(), HasSubstr("is a token file; a text is needed"));
}

TEST_F(TokenRun, MemoryDoesNotGrowWithTheText) {
  // Most that tokenize takes, in kilobytes.
  const auto peak = [&](int megabytes) {
    const std::string path = root_ / "large.txt";
    std::ofstream text(path);
    const std::string piece = Content(root_ / "text.txt");
    for (size_t n = 0; n < megabytes * 1000000u; n += piece.size()) text << piece;
    text.close();
    const pid_t child = fork();
    if (child == 0) {
      const int null = open("/dev/null", O_WRONLY);
      dup2(null, STDOUT_FILENO);
      const std::string out = root_ / "large.tokens";
      execl(MNEMON_TRAIN_BINARY, MNEMON_TRAIN_BINARY, "tokenize", path.c_str(), "--out",
            out.c_str(), "--threads", "2", nullptr);
      _exit(127);
    }
    int status = 0;
    rusage usage = {};
    EXPECT_EQ(wait4(child, &status, 0, &usage), child);
    EXPECT_EQ(status, 0);
    return usage.ru_maxrss;
  };
  EXPECT_LT(peak(80), peak(8) + 8 * 1024);
}

}  // namespace
}  // namespace mnemon
