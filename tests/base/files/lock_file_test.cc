// SPDX-License-Identifier: MIT
#include "base/files/lock_file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

class LockFileTest : public testing::Test {
 protected:
  const TemporaryDirectory directory_;
  const std::string path_ = directory_.Path("LOCK");
};

TEST_F(LockFileTest, IsHeldByOneAndNamesIt) {
  LockAttempt first = TryLockFile(path_);
  ASSERT_TRUE(first.file.valid());
  struct stat made;
  ASSERT_EQ(::stat(path_.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0600u);
  const LockAttempt second = TryLockFile(path_);
  EXPECT_FALSE(second.file.valid());
  EXPECT_STREQ(second.call, "lock");
  EXPECT_EQ(second.error, EWOULDBLOCK);
  EXPECT_EQ(second.holder, ::getpid());
  first.file.Close();
  EXPECT_TRUE(TryLockFile(path_).file.valid());
}

TEST_F(LockFileTest, IsDroppedWithItsProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    const LockAttempt lock = TryLockFile(path_);
    ::_exit(lock.file.valid() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(TryLockFile(path_).file.valid());
}

TEST_F(LockFileTest, OfUnknownHolders) {
  const LockAttempt first = TryLockFile(path_);
  std::ofstream(path_) << "nobody";
  const LockAttempt second = TryLockFile(path_);
  EXPECT_EQ(second.error, EWOULDBLOCK);
  EXPECT_EQ(second.holder, 0);
}

TEST_F(LockFileTest, FollowsNoLinkAndNamesTheCallThatFailed) {
  std::filesystem::create_symlink("elsewhere", path_);
  const LockAttempt link = TryLockFile(path_);
  EXPECT_STREQ(link.call, "open");
  EXPECT_EQ(link.error, ELOOP);
  EXPECT_FALSE(std::filesystem::exists(directory_.Path("elsewhere")));
  const LockAttempt nowhere = TryLockFile(directory_.Path("none/LOCK"));
  EXPECT_STREQ(nowhere.call, "open");
  EXPECT_EQ(nowhere.error, ENOENT);
}

}  // namespace
}  // namespace mnemon
