// SPDX-License-Identifier: MIT
#include "base/files/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = testing::TempDir() + "/mnemon-file-XXXXXX";
    dir_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override { fs::remove_all(dir_); }

  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  void Put(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
  }
  std::string Get(const std::string& name) const {
    return ReadFile(Path(name), 1 << 20).value_or("<unreadable>");
  }
  // Every name below the directory.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(dir_)) {
      names.push_back(fs::relative(entry.path(), dir_));
    }
    return names;
  }
  static void ExpectError(const absl::Status& status, absl::StatusCode code,
                          const std::string& part) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }

  std::string dir_;
};

TEST_F(FileTest, ReadsBytes) {
  const std::string bytes("a\0b\n", 4);
  Put("x", bytes);
  EXPECT_EQ(ReadFile(Path("x"), 4).value(), bytes);
  Put("empty", "");
  EXPECT_EQ(ReadFile(Path("empty"), 0).value(), "");
}

TEST_F(FileTest, RefusesWhatIsNoRegularFile) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  Put("x", "x");
  fs::create_symlink(Path("x"), Path("link"));
  fs::create_directory(Path("directory"));
  ASSERT_EQ(::mkfifo(Path("fifo").c_str(), 0600), 0);
  ExpectError(ReadFile(Path("link"), 9).status(), kInvalid, "link' is a symbolic link");
  ExpectError(ReadFile(Path("directory"), 9).status(), kInvalid, "a directory");
  ExpectError(ReadFile(Path("fifo"), 9).status(), kInvalid, "not a regular file");
  ExpectError(ReadFile("/dev/zero", 9).status(), kInvalid, "'/dev/zero'");
  ExpectError(ReadFile("", 9).status(), kInvalid, "empty path");
  ExpectError(ReadFile(std::string("a\0b", 3), 9).status(), kInvalid, "NUL");
}

TEST_F(FileTest, NamesWhatCannotBeRead) {
  ExpectError(ReadFile(Path("none"), 9).status(), absl::StatusCode::kNotFound, "none");
  Put("big", "0123456789");
  ExpectError(ReadFile(Path("big"), 9).status(), absl::StatusCode::kOutOfRange,
              "big' has 10 bytes, at most 9");
}

TEST_F(FileTest, ReadThatEndsEarlyIsDataLoss) {
  // The kernel reports one page for every file of sysfs and gives fewer bytes.
  const std::string path = "/sys/devices/system/cpu/online";
  if (!fs::exists(path)) GTEST_SKIP() << "no sysfs here";
  ExpectError(ReadFile(path, 1 << 20).status(), absl::StatusCode::kDataLoss, path);
}

TEST_F(FileTest, FileThatIsReplacedWhileReadIsOldOrNew) {
  const std::string old_content(1 << 20, 'o'), new_content(1 << 19, 'n');
  Put("x", old_content);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      (void)WriteFileDurably(Path("x"), i % 2 ? old_content : new_content);
    }
  });
  for (int i = 0; i < 60; ++i) {
    const auto read = ReadFile(Path("x"), 1 << 21);
    EXPECT_TRUE(read.ok() && (*read == old_content || *read == new_content));
  }
  stop = true;
  writer.join();
}

TEST_F(FileTest, DirectoryStaysTheOneThatWasOpened) {
  fs::create_directories(Path("a/sub"));
  Put("a/sub/x", "old");
  fs::create_symlink("a", Path("last"));
  const auto directory = Directory::Open(Path("last"));
  ASSERT_TRUE(directory.ok());
  EXPECT_FALSE(directory->Replaced());
  fs::create_directories(Path("b/sub"));
  Put("b/sub/x", "new");
  ASSERT_TRUE(ReplaceSymlink(Path("last"), "b").ok());
  EXPECT_EQ(directory->Read("sub/x", 9).value(), "old");
  EXPECT_TRUE(directory->Replaced());
  EXPECT_THAT(directory->List().value(), ElementsAre("sub"));
}

TEST_F(FileTest, DirectoryIsNotLeft) {
  fs::create_directories(Path("a"));
  Put("x", "x");
  fs::create_symlink(dir_, Path("a/up"));
  const auto directory = Directory::Open(Path("a"));
  ASSERT_TRUE(directory.ok());
  for (const char* name : {"../x", "/x", "up/x", "./x", "a//x", "", ".."}) {
    EXPECT_FALSE(directory->Read(name, 9).ok()) << name;
  }
  ExpectError(Directory::Open(Path("x")).status(), absl::StatusCode::kInvalidArgument,
              "x' is not a directory");
}

TEST_F(FileTest, WritesAndReplacesFiles) {
  ASSERT_TRUE(WriteFileDurably(Path("x"), "one").ok());
  EXPECT_EQ(Get("x"), "one");
  fs::permissions(Path("x"), fs::perms(0640));
  ASSERT_TRUE(WriteFileDurably(Path("x"), "two").ok());
  EXPECT_EQ(Get("x"), "two");
  EXPECT_EQ(fs::status(Path("x")).permissions(), fs::perms(0640));
  EXPECT_THAT(Names(), ElementsAre("x"));
}

TEST_F(FileTest, WritesOnlyOverRegularFiles) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  fs::create_directory(Path("directory"));
  Put("x", "x");
  fs::create_symlink("x", Path("link"));
  ExpectError(WriteFileDurably(Path("directory"), ""), kInvalid, "directory");
  ExpectError(WriteFileDurably(Path("link"), ""), kInvalid, "link");
  ExpectError(WriteFileDurably("/dev/null", ""), kInvalid, "/dev/null");
  ExpectError(WriteFileDurably(Path("none/x"), ""), absl::StatusCode::kNotFound,
              "none");
  ExpectError(WriteDirectoryDurably(Path("x"), [](auto&) { return absl::OkStatus(); }),
              kInvalid, "not a directory");
  ExpectError(ReplaceSymlink(Path("x"), "y"), kInvalid, "not a link");
}

absl::Status FillWith(const std::string& dir, const std::string& content) {
  fs::create_directory(dir + "/sub");
  if (auto s = WriteFileDurably(dir + "/sub/x", content); !s.ok()) return s;
  return WriteFileDurably(dir + "/y", content);
}

TEST_F(FileTest, WritesAndReplacesDirectories) {
  for (const std::string content : {"one", "two"}) {
    const auto fill = [&](const std::string& dir) { return FillWith(dir, content); };
    ASSERT_TRUE(WriteDirectoryDurably(Path("d/"), fill).ok());
    EXPECT_EQ(Get("d/sub/x"), content);
    EXPECT_EQ(Get("d/y"), content);
    EXPECT_THAT(Names(), UnorderedElementsAre("d", "d/sub", "d/sub/x", "d/y"));
  }
}

TEST_F(FileTest, FailedFillLeavesTheOldDirectory) {
  const auto good = [](const std::string& dir) { return FillWith(dir, "old"); };
  ASSERT_TRUE(WriteDirectoryDurably(Path("d"), good).ok());
  const auto bad = [](const std::string& dir) {
    (void)FillWith(dir, "new");
    return absl::CancelledError("no");
  };
  ExpectError(WriteDirectoryDurably(Path("d"), bad), absl::StatusCode::kCancelled,
              "no");
  EXPECT_EQ(Get("d/y"), "old");
  EXPECT_THAT(Names(), UnorderedElementsAre("d", "d/sub", "d/sub/x", "d/y"));
}

// Runs `body` in a child process and returns how it ended, as waitpid does.
template <class Body>
int InChild(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(FileTest, UnreadableFileIsNamed) {
  constexpr uid_t kNobody = 65534;
  Put("secret", "x");
  fs::permissions(dir_, fs::perms(0755));
  fs::permissions(Path("secret"), fs::perms::none);
  const int status = InChild([&] {
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(1);
    const absl::Status read = ReadFile(Path("secret"), 9).status();
    const bool named = read.message().find("secret") != absl::string_view::npos;
    ::_exit(absl::IsPermissionDenied(read) && named ? 7 : 8);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(FileTest, UnwritableDirectoryIsNamed) {
  fs::permissions(dir_, fs::perms(0555));
  const int status = InChild([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);
    const absl::Status written = WriteFileDurably(Path("x"), "x");
    ::_exit(absl::IsPermissionDenied(written) ? 7 : 8);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  fs::permissions(dir_, fs::perms(0755));
}

TEST_F(FileTest, FullDiskIsResourceExhausted) {
  Put("x", "old");
  const int status = InChild([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1024, 1024};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const absl::Status written = WriteFileDurably(Path("x"), std::string(4096, 'n'));
    ::_exit(absl::IsResourceExhausted(written) ? 7 : 8);
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(Get("x"), "old");
  EXPECT_THAT(Names(), ElementsAre("x"));
}

TEST_F(FileTest, PiecesAppearTogetherOrNotAtAll) {
  Put("x", "old");
  {
    auto file = DurableFile::Create(Path("x"));
    ASSERT_TRUE(file.ok() && file->Write("one ").ok());
    EXPECT_EQ(Get("x"), "old");
  }
  EXPECT_THAT(Names(), ElementsAre("x"));
  EXPECT_EQ(Get("x"), "old");
  auto file = DurableFile::Create(Path("x"));
  ASSERT_TRUE(file.ok() && file->Write("one ").ok() && file->Write("two").ok());
  ASSERT_TRUE(file->Publish().ok());
  EXPECT_EQ(Get("x"), "one two");
}

TEST_F(FileTest, LeftoversOfKilledWritersGo) {
  for (int i = 0; i < 3; ++i) {
    InChild([&] {
      (void)WriteDirectoryDurably(Path("d"), [&](const std::string& dir) {
        (void)FillWith(dir, "half");
        ::kill(::getpid(), SIGKILL);
        return absl::OkStatus();
      });
    });
    EXPECT_FALSE(fs::exists(Path("d")));
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()), 1);
  }
  ASSERT_TRUE(WriteFileDurably(Path("x"), "x").ok());
  EXPECT_THAT(Names(), ElementsAre("x"));
}

TEST_F(FileTest, LiveWritersKeepTheirTemporaryFiles) {
  const auto slow = [&](const std::string& dir) {
    const auto other = [](const std::string& d) { return FillWith(d, "other"); };
    EXPECT_TRUE(WriteDirectoryDurably(Path("other"), other).ok());
    EXPECT_EQ(InChild([&] { ::_exit(WriteFileDurably(Path("z"), "z").ok() ? 7 : 8); }),
              7 << 8);
    return FillWith(dir, "slow");
  };
  ASSERT_TRUE(WriteDirectoryDurably(Path("slow"), slow).ok());
  EXPECT_EQ(Get("slow/y"), "slow");
  EXPECT_EQ(Get("other/y"), "other");
}

TEST_F(FileTest, ReplacedDirectoryIsThereAtEveryMoment) {
  const auto fill = [](const std::string& dir) { return FillWith(dir, "x"); };
  ASSERT_TRUE(WriteDirectoryDurably(Path("d"), fill).ok());
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 60; ++i)
      EXPECT_TRUE(WriteDirectoryDurably(Path("d"), fill).ok());
    done = true;
  });
  int missing = 0;
  while (!done) missing += ::access(Path("d/y").c_str(), F_OK) != 0;
  writer.join();
  EXPECT_EQ(missing, 0);
}

// A directory that is replaced over and over by a process killed at any moment is whole
// whenever somebody looks.
TEST_F(FileTest, KilledReplacementIsOldOrNew) {
  const auto fill = [](const std::string& content) {
    return [content](const std::string& dir) { return FillWith(dir, content); };
  };
  ASSERT_TRUE(WriteDirectoryDurably(Path("d"), fill("0")).ok());
  for (int round = 0; round < 30; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i)
        (void)WriteDirectoryDurably(Path("d"), fill(std::to_string(i)));
    }
    ::usleep(static_cast<useconds_t>(500 + 397 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_EQ(Get("d/y"), Get("d/sub/x"));
    EXPECT_NE(Get("d/y"), "<unreadable>");
  }
  ASSERT_TRUE(WriteDirectoryDurably(Path("d"), fill("end")).ok());
  EXPECT_THAT(Names(), UnorderedElementsAre("d", "d/sub", "d/sub/x", "d/y"));
}

TEST_F(FileTest, ReplacesLinks) {
  ASSERT_TRUE(ReplaceSymlink(Path("last"), "step-1").ok());
  ASSERT_TRUE(ReplaceSymlink(Path("last"), "step-2").ok());
  EXPECT_EQ(fs::read_symlink(Path("last")), "step-2");
  EXPECT_THAT(Names(), ElementsAre("last"));
}

TEST_F(FileTest, MakesParents) {
  ASSERT_TRUE(MakeDirectories(Path("a/b/c")).ok());
  ASSERT_TRUE(MakeDirectories(Path("a/b/c")).ok());
  EXPECT_TRUE(fs::is_directory(Path("a/b/c")));
  Put("x", "");
  EXPECT_FALSE(MakeDirectories(Path("x/y")).ok());
}

// A temporary file lies beside what it replaces, so that no rename leaves a device.
TEST_F(FileTest, WritesOnAnotherDevice) {
  const char* const memory = "/dev/shm";
  struct stat here, there;
  if (::stat(dir_.c_str(), &here) != 0 || ::stat(memory, &there) != 0 ||
      here.st_dev == there.st_dev || ::access(memory, W_OK) != 0) {
    GTEST_SKIP() << "there is one device";
  }
  std::string pattern = std::string(memory) + "/mnemon-file-XXXXXX";
  const std::string far = ::mkdtemp(pattern.data());
  fs::create_symlink(far, Path("far"));
  Put("far/x", "old");
  EXPECT_TRUE(WriteFileDurably(Path("far/x"), "new").ok());
  EXPECT_EQ(Get("far/x"), "new");
  const auto fill = [](const std::string& dir) { return FillWith(dir, "y"); };
  EXPECT_TRUE(WriteDirectoryDurably(Path("far/d"), fill).ok());
  EXPECT_EQ(Get("far/d/y"), "y");
  EXPECT_EQ(std::distance(fs::directory_iterator(far), {}), 2);  // x and d
  fs::remove_all(far);
}

TEST_F(FileTest, ParentMayBeALink) {
  fs::create_directory(Path("real"));
  fs::create_symlink("real", Path("run"));
  ASSERT_TRUE(WriteFileDurably(Path("run/x"), "x").ok());
  EXPECT_EQ(Get("real/x"), "x");
}

}  // namespace
}  // namespace mnemon
