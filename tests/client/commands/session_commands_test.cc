// SPDX-License-Identifier: MIT
// What `mnemon sessions` prints and leaves behind, run inside the process against a
// fake.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/process/process.h"
#include "gmock/gmock.h"
#include "tests/client/commands/run_command.h"
#include "tests/client/fake_sessions.h"

namespace mnemon::client {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SessionCommandsTest : public ::testing::Test {
 protected:
  SessionCommandsTest() {
    std::string pattern = testing::TempDir() + "/mnemon-sessions-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~SessionCommandsTest() override { fs::remove_all(folder_); }

  Ran Run(std::vector<std::string> words) {
    words.insert(words.begin(), "sessions");
    return RunCommand(fake_.address(), std::move(words));
  }
  void ExpectUsage(const std::vector<std::string>& words, const std::string& part) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.code, 2) << words[0];
    EXPECT_THAT(ran.err, HasSubstr(part));
    EXPECT_EQ(ran.out, "");
  }
  void ExpectFailure(const std::vector<std::string>& words, const std::string& part) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.code, 1) << words[0];
    EXPECT_THAT(ran.err, HasSubstr(part));
    EXPECT_EQ(ran.out, "");
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  FakeSessions fake_;
  std::string folder_;
};

TEST_F(SessionCommandsTest, CreatePrintsIds) {
  const Ran ran = Run({"create", "anna", "bert"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "anna\nbert\n");
  EXPECT_EQ(fake_.created.session().ttl().seconds(), 86400);
  EXPECT_FALSE(fake_.created.session().sampling().has_temperature());
  EXPECT_EQ(Run({"create"}).out, "drawn-1\n");
  EXPECT_EQ(Run({"create", "carl", "--model", "small", "--expire-time",
                 "2030-01-31T08:00:00+01:00", "--durability", "none", "--paused",
                 "--temperature", "0.5", "--logit-bias", "7=-inf", "--request-id", "u"})
                .out,
            "carl\n");
  const v1::Session& sent = fake_.created.session();
  EXPECT_EQ(sent.model(), "models/small");
  EXPECT_EQ(sent.expire_time().seconds(), 1896073200);
  EXPECT_EQ(sent.durability(), v1::Session::NONE);
  EXPECT_TRUE(sent.paused());
  EXPECT_EQ(sent.sampling().temperature(), 0.5);
  EXPECT_EQ(sent.sampling().logit_bias_size(), 1);
  EXPECT_EQ(fake_.created.request_id(), "u");
  EXPECT_THAT(Run({"create", "dora", "--json"}).out,
              HasSubstr("{\"name\":\"sessions/dora\",\"model\":\"models/small\""));
}

TEST_F(SessionCommandsTest, CreateRefusesWrongUse) {
  ExpectUsage({"create", "a", "b", "--request-id", "u"}, "--request-id belongs to one");
  ExpectUsage({"create", "--expire-time", "tomorrow"},
              "--expire-time: 'tomorrow' is not");
  ExpectUsage({"create", "--expire-time", "9999-01-01T00:00:00Z"}, "1970 to 2254");
  ExpectUsage({"create", "--ttl", "5", "--expire-time", "2030-01-31T08:00:00Z"},
              "--expire-time");
  ExpectUsage({"create", "--durability", "some"}, "--durability");
  fake_.Add("anna", 1);
  ExpectFailure({"create", "anna"}, "sessions/anna exists (ALREADY_EXISTS)");
}

TEST_F(SessionCommandsTest, GetPrintsAFactPerLine) {
  v1::Session& session = fake_.Add("anna", 12);
  session.mutable_sampling()->set_temperature(0.5);
  session.mutable_sampling()->set_top_k(4);
  v1::Checkpoint& checkpoint = *session.add_checkpoints();
  checkpoint.set_checkpoint_id("c");
  checkpoint.set_token_count(5);
  checkpoint.set_size_bytes(4096);
  checkpoint.mutable_create_time()->set_seconds(1767225661);
  fake_.Add("bert", 0).set_parent("sessions/an\x1b[2J");
  const Ran ran = Run({"get", "anna"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "name         anna\n"
            "model        small\n"
            "state        IDLE\n"
            "paused       no\n"
            "tokens       12\n"
            "state bytes  1200\n"
            "tier         HOST\n"
            "durability   TURN\n"
            "sampling     temperature 0.5, top_k 4\n"
            "created      2026-01-01T00:00:00Z\n"
            "last use     2026-01-01T00:01:01Z\n"
            "expires      2026-01-02T00:01:01Z\n"
            "parent       -\n"
            "rebuilt      no\n"
            "model id     aa11\n"
            "numerics id  fp32/1\n"
            "etag         e1\n"
            "checkpoint   c: 5 tokens, 4096 bytes, 2026-01-01T00:01:01Z\n");
  EXPECT_THAT(Run({"get", "anna", "bert"}).out, HasSubstr("01:01Z\n\nname "));
  EXPECT_THAT(Run({"get", "bert"}).out, HasSubstr("an\\x1b[2J\n"));
  ExpectFailure({"get", "nobody"}, "no session sessions/nobody (NOT_FOUND)");
  ExpectUsage({"get"}, "missing argument: ids");
}

TEST_F(SessionCommandsTest, ListPrintsATable) {
  fake_.Add("anna", 12);
  v1::Session& bert = fake_.Add("bert-the-second", 0);
  bert.clear_expire_time();
  bert.clear_last_use_time();
  bert.set_state(v1::Session::RUNNING);
  fake_.Add("carl", 1234);
  Ran ran = Run({"list", "--filter", "state = IDLE", "--order-by", "name desc"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(
      ran.out,
      "NAME             MODEL  STATE    TOKENS  BYTES   TIER  LAST USE              "
      "EXPIRES\n"
      "anna             small  IDLE     12      1200    HOST  2026-01-01T00:01:01Z  "
      "2026-01-02T00:01:01Z\n"
      "bert-the-second  small  RUNNING  0       0       HOST  -                     -\n"
      "carl             small  IDLE     1234    123400  HOST  2026-01-01T00:01:01Z  "
      "2026-01-02T00:01:01Z\n");
  EXPECT_EQ(fake_.listed.back().filter(), "state = IDLE");
  EXPECT_EQ(fake_.listed.back().order_by(), "name desc");
  ran = Run({"list", "--page-size", "1"});
  EXPECT_THAT(ran.out, HasSubstr("\nanna "));
  EXPECT_EQ(ran.err, "the next page: --page-token anna\n");
  ran = Run({"list", "--page-token", "bert-the-second", "--json"});
  EXPECT_THAT(ran.out, HasSubstr("{\"sessions\":[{\"name\":\"sessions/carl\","));
  EXPECT_THAT(ran.out, HasSubstr("],\"next_page_token\":\"\"}\n"));
  ExpectUsage({"list", "--page-size", "0"}, "--page-size");
}

TEST_F(SessionCommandsTest, UpdateMasksWhatIsGiven) {
  fake_.Add("anna", 12);
  const auto fields = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"update", "anna"});
    EXPECT_EQ(Run(words).code, 0);
    const auto& paths = fake_.updated.update_mask().paths();
    return std::vector<std::string>(paths.begin(), paths.end());
  };
  EXPECT_THAT(fields({"--ttl", "60"}), ElementsAre("ttl"));
  EXPECT_EQ(fake_.updated.session().ttl().seconds(), 60);
  EXPECT_THAT(fields({"--ttl", "0"}), ElementsAre("ttl"));
  EXPECT_FALSE(fake_.updated.session().has_ttl());
  EXPECT_THAT(fields({"--expire-time", "2030-01-31T08:00:00Z", "--durability",
                      "default", "--pause", "--top-k", "4", "--etag", "e1"}),
              ElementsAre("expire_time", "durability", "sampling", "paused"));
  EXPECT_EQ(fake_.updated.session().durability(), v1::Session::DURABILITY_UNSPECIFIED);
  EXPECT_TRUE(fake_.updated.session().paused());
  EXPECT_THAT(fields({"--resume", "--clear-sampling"}),
              ElementsAre("sampling", "paused"));
  EXPECT_FALSE(fake_.sessions["anna"].paused());
  EXPECT_FALSE(fake_.sessions["anna"].sampling().has_top_k());
  EXPECT_THAT(Run({"update", "anna", "--pause"}).out, HasSubstr("paused       yes\n"));
  ExpectFailure({"update", "anna", "--pause", "--etag", "e0"},
                "the etag is e1 (ABORTED)");
  ExpectUsage({"update", "anna"}, "give what to change: --ttl");
  ExpectUsage({"update", "anna", "--pause", "--resume"}, "--resume");
  ExpectUsage({"update", "anna", "--clear-sampling", "--top-k", "4"},
              "--clear-sampling");
}

TEST_F(SessionCommandsTest, ForkRewindAndCheckpoint) {
  fake_.Add("anna", 12);
  EXPECT_EQ(Run({"fork", "anna", "bert", "--token-count", "5", "--ttl", "60"}).out,
            "bert\n");
  EXPECT_EQ(fake_.forked.token_count(), 5);
  EXPECT_EQ(fake_.forked.session().ttl().seconds(), 60);
  EXPECT_EQ(Run({"fork", "anna"}).out, "drawn-1\n");
  EXPECT_FALSE(fake_.forked.has_token_count() || fake_.forked.session().has_ttl());
  EXPECT_EQ(Run({"checkpoint", "anna", "early", "--request-id", "u"}).out, "early\n");
  EXPECT_EQ(fake_.checkpointed.request_id(), "u");
  EXPECT_EQ(Run({"checkpoint", "anna", "--json"}).out,
            "{\"checkpoint_id\":\"drawn\",\"token_count\":12,\"size_bytes\":4096,"
            "\"create_time\":\"2026-01-01T00:01:01.000000Z\"}\n");
  EXPECT_THAT(Run({"rewind", "anna", "--token-count", "3"}).out,
              HasSubstr("tokens       3\n"));
  EXPECT_EQ(fake_.rewound.token_count(), 3);
  EXPECT_EQ(Run({"rewind", "anna", "--checkpoint-id", "early", "--etag", "e1"}).code,
            1);
  EXPECT_EQ(fake_.rewound.checkpoint_id(), "early");
  ExpectFailure({"rewind", "anna", "--token-count", "4"}, "OUT_OF_RANGE");
  ExpectUsage({"rewind", "anna"}, "--token-count N or --checkpoint-id ID");
  ExpectUsage({"rewind", "anna", "--token-count", "3", "--checkpoint-id", "c"},
              "--checkpoint-id");
}

TEST_F(SessionCommandsTest, DeleteTakesEtagAndAbsence) {
  fake_.Add("anna", 12);
  ExpectFailure({"delete", "anna", "--etag", "e0"}, "ABORTED");
  EXPECT_EQ(Run({"delete", "anna", "--etag", "e1"}).code, 0);
  ExpectFailure({"delete", "anna"}, "NOT_FOUND");
  EXPECT_EQ(Run({"delete", "anna", "bert", "--allow-missing"}).code, 0);
  ExpectUsage({"delete", "anna", "bert", "--etag", "e1"}, "--etag belongs to one");
}

TEST_F(SessionCommandsTest, VerifyExitsWith1WhenSomethingDiffers) {
  fake_.Add("anna", 12);
  v1::VerifySessionResponse& answer = fake_.verification;
  answer.set_stored_form_valid(true);
  answer.set_token_count(12);
  answer.set_state_size_bytes(1200);
  Ran ran = Run({"verify", "anna"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "stored form       valid\n"
            "tokens            12\n"
            "bytes compared    1200\n"
            "first difference  -\n");
  ran = Run({"verify", "anna", "--replay"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err, "mnemon: the server did not compare the replayed state\n");
  answer.set_replay_equal(true);
  EXPECT_EQ(Run({"verify", "anna", "--replay"}).code, 0);
  EXPECT_TRUE(fake_.replayed);
  answer.set_replay_equal(false);
  answer.set_first_difference("layers.0.memory");
  ran = Run({"verify", "anna", "--replay", "--json"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out,
            "{\"stored_form_valid\":true,\"replay_equal\":false,\"token_count\":12,"
            "\"state_size_bytes\":1200,\"first_difference\":\"layers.0.memory\"}\n");
  EXPECT_EQ(ran.err,
            "mnemon: the replayed state differs from the stored one; the first "
            "difference is in 'layers.0.memory'\n");
  answer.Clear();
  ran = Run({"verify", "anna"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err, "mnemon: the stored form is damaged\n");
}

TEST_F(SessionCommandsTest, ExportWritesTheWholeFileOrNothing) {
  fake_.Add("anna", 12);
  fake_.snapshot = std::string(300000, 'x') + "end";
  Ran ran = Run({"export", "anna", Path("a")});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "exported anna: 12 tokens, 300003 bytes\n");
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(Read("a"), fake_.snapshot);
  ran = Run({"export", "anna", Path("a"), "--json"});
  EXPECT_THAT(ran.out, HasSubstr("{\"session\":{\"name\":\"sessions/anna\","));
  EXPECT_THAT(ran.out, HasSubstr("},\"size_bytes\":300003}\n"));
  EXPECT_EQ(Run({"export", "anna", "-"}).out, fake_.snapshot);
  Put("a", "old");
  fake_.fault = FakeSessions::Fault::kBreak;
  ExpectFailure({"export", "anna", Path("a")}, "the disk broke (DATA_LOSS)");
  EXPECT_EQ(Read("a"), "old");
  ExpectFailure({"export", "nobody", Path("b")}, "NOT_FOUND");
  ExpectFailure({"export", "anna", Path("none/a")}, "No such file or directory");
  ExpectFailure({"export", "anna", "/dev/null"}, "not a regular file");
  ExpectUsage({"export", "anna", "-", "--json"}, "give a file");
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST_F(SessionCommandsTest, ImportReadsFileOrStandardInput) {
  const std::string bytes = std::string(600000, 'x') + "end";
  Put("a", bytes);
  EXPECT_EQ(Run({"import", Path("a")}).out, "drawn-1\n");
  EXPECT_EQ(fake_.imported, bytes);
  EXPECT_EQ(fake_.opened.size_bytes(), 600003);
  EXPECT_THAT(fake_.chunk_sizes, ElementsAre(262144, 262144, 75715));
  EXPECT_FALSE(fake_.opened.session().has_ttl());
  const int old = dup(STDIN_FILENO);
  const int file = open(Path("a").c_str(), O_RDONLY);
  ASSERT_EQ(lseek(file, 10, SEEK_SET), 10);
  dup2(file, STDIN_FILENO);
  EXPECT_EQ(Run({"import", "-", "anna", "--model", "small", "--ttl", "60",
                 "--durability", "turn"})
                .out,
            "anna\n");
  EXPECT_EQ(fake_.imported, bytes.substr(10));
  EXPECT_EQ(fake_.opened.session().model(), "models/small");
  EXPECT_EQ(fake_.opened.session().ttl().seconds(), 60);
  EXPECT_EQ(fake_.opened.session().durability(), v1::Session::TURN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  dup2(ends[0], STDIN_FILENO);
  std::thread writer([&] {
    EXPECT_EQ(write(ends[1], bytes.data(), 100000), 100000);
    close(ends[1]);
  });
  EXPECT_EQ(Run({"import", "-", "piped"}).out, "piped\n");
  writer.join();
  EXPECT_EQ(fake_.imported, bytes.substr(0, 100000));
  EXPECT_EQ(fake_.opened.size_bytes(), 100000);
  ExpectFailure({"import", "-"}, "standard input is empty");
  dup2(old, STDIN_FILENO);
  for (const int fd : {old, file, ends[0]}) close(fd);
}

TEST_F(SessionCommandsTest, ImportNamesWhatIsWrongWithTheFile) {
  Put("empty", "");
  ExpectFailure({"import", Path("empty")}, "empty' is empty: it holds no snapshot");
  ExpectFailure({"import", Path("none")}, "none': No such file or directory");
  ExpectFailure({"import", folder_}, "not a regular file");
  ExpectUsage({"import", Path("none"), "--ttl", "0"}, "--ttl");
  Put("a", "abc");
  fake_.fault = FakeSessions::Fault::kBreak;
  ExpectFailure({"import", Path("a")}, "the disk broke (DATA_LOSS)");
  fake_.Settle();
  EXPECT_TRUE(fake_.sessions.empty());
}

// Signals and limits are a matter of the whole process: in a child of its own.
class SessionCommandsDeathTest : public SessionCommandsTest {
 protected:
  SessionCommandsDeathTest() {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    fake_.Add("anna", 12);
    fake_.snapshot = std::string(400000, 'x');
  }

  // Ends the process with the exit code, or with 99 when the folder is not empty then.
  [[noreturn]] void RunAndExit(std::vector<std::string> words) {
    alarm(600);
    words.insert(words.begin(), "sessions");
    const int code = ExitCode(fake_.address(), std::move(words));
    _exit(Names().empty() ? code : 99);
  }
};

TEST_F(SessionCommandsDeathTest, ExportToAFullDiskLeavesNothing) {
  const auto limited = [&] {
    InitProcess();
    const rlimit limit = {100000, 100000};
    setrlimit(RLIMIT_FSIZE, &limit);
    RunAndExit({"export", "anna", Path("a")});
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(1), "cannot write .*File too large");
  const auto full = [&] {
    dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO);
    RunAndExit({"export", "anna", "-"});
  };
  EXPECT_EXIT(full(), testing::ExitedWithCode(1),
              "cannot write standard output: No space left on device");
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(SessionCommandsDeathTest, CtrlCEndsAnExportAndLeavesNothing) {
  fake_.fault = FakeSessions::Fault::kHang;
  fake_.before_hang = [] { kill(getpid(), SIGINT); };
  EXPECT_EXIT(RunAndExit({"export", "anna", Path("a")}), testing::ExitedWithCode(130),
              "");
  EXPECT_EXIT(RunAndExit({"verify", "anna"}), testing::ExitedWithCode(130), "");
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(SessionCommandsDeathTest, CtrlCEndsWaitingForAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto interrupt = [] {
    std::thread([] {
      for (int i = 0; i < 1000; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        kill(getpid(), SIGINT);
      }
    }).detach();
  };
  // Nobody reads, nobody writes.
  const auto output = [&] {
    dup2(ends[1], STDOUT_FILENO);
    signal(SIGINT, SIG_IGN);
    interrupt();
    RunAndExit({"export", "anna", "-"});
  };
  EXPECT_EXIT(output(), testing::ExitedWithCode(130), "");
  const auto input = [&] {
    dup2(ends[0], STDIN_FILENO);
    signal(SIGINT, SIG_IGN);
    interrupt();
    RunAndExit({"import", "-"});
  };
  EXPECT_EXIT(input(), testing::ExitedWithCode(130), "");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace mnemon::client
