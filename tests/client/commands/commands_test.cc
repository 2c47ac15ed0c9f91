// SPDX-License-Identifier: MIT
// What commands print, run inside the process against a toy server.
#include "client/commands/commands.h"

#include <algorithm>
#include <cstdlib>

#include "gmock/gmock.h"
#include "tests/client/commands/run_command.h"
#include "tests/server/rpc/rig.h"

namespace mnemon::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Ran RunOn(const Rig& rig, std::vector<std::string> words) {
  return client::RunCommand(rig.address(), std::move(words));
}

TEST(Commands, GenerateTellsOfTheContextLimit) {
  Rig rig({.append_capacity = 48});
  Ran ran = RunOn(rig, {"generate", "--prompt", "abc", "--max-tokens", "46"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  ran = RunOn(rig, {"generate", "--prompt", "abc", "--max-tokens", "100"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err,
            "mnemon: the context of 48 tokens is full (0 before, prompt 3, generated "
            "46): give a shorter prompt, or a model of a longer context\n");
  ASSERT_TRUE(rig.client->CreateSession("anna", "").ok());
  ran = RunOn(rig, {"generate", "--session", "anna", "--prompt", "abc"});
  EXPECT_THAT(ran.err, HasSubstr("generated 46): continue in another session"));
  ran = RunOn(rig, {"generate", "--session", "anna", "--prompt", "abc"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("a history of 49 tokens and a prompt of 3 exceed the "
                                 "context of 48"));
  EXPECT_THAT(ran.err, HasSubstr("); continue in another session"));
  ran = RunOn(rig, {"score", "--prompt", std::string(49, 'a')});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("mnemon-train eval takes a text of any length"));
}

TEST(Commands, AnErrorOfTheServerNamesFlagOrVariable) {
  const Rig rig;
  Ran ran =
      RunOn(rig, {"generate", "--prompt", "a", "--penalty-window-tokens", "65537"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, StartsWith("mnemon: --penalty-window-tokens: "));
  ran = RunOn(rig, {"generate", "--prompt", "a", "--logit-bias", "99=1"});
  EXPECT_THAT(ran.err, StartsWith("mnemon: --logit-bias: "));
  setenv("MNEMON_TEMPERATURE", "-1", 1);
  ran = RunOn(rig, {"generate", "--prompt", "a"});
  unsetenv("MNEMON_TEMPERATURE");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, StartsWith("mnemon: MNEMON_TEMPERATURE: "));
}

TEST(Commands, FlagsAreCalledAsTheFieldsOfTheApi) {
  const Rig rig;
  const std::string help = RunOn(rig, {"generate", "--help"}).out;
  for (const auto* message : {v1::Sampling::descriptor(), v1::Stopping::descriptor()}) {
    for (int i = 0; i < message->field_count(); ++i) {
      std::string flag = message->field(i)->name();
      // Not available in this version.
      if (flag == "constraint") continue;
      std::replace(flag.begin(), flag.end(), '_', '-');
      EXPECT_THAT(help, HasSubstr("\n  --" + flag + " "));
    }
  }
}

TEST(Commands, GenerateNeedsSomethingToContinue) {
  const Rig rig;
  const Ran ran = RunOn(rig, {"generate"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(
      ran.err,
      HasSubstr("--prompt TEXT, --message TEXT, --prompt-tokens IDS, --text FILE"));
}

TEST(Commands, ATextIsAFile) {
  const Rig rig;
  const Ran ran = RunOn(rig, {"score", "--text", "And then"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err,
            "mnemon: --text: cannot open 'And then': No such file or directory; it "
            "names a file, text itself goes to --prompt\n");
  EXPECT_EQ(RunOn(rig, {"score", "--text", "f", "--prompt", "a"}).code, 2);
  EXPECT_THAT(RunOn(rig, {"score"}).err, HasSubstr("--text FILE"));
}

}  // namespace
}  // namespace mnemon::client
