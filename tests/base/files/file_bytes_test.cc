// SPDX-License-Identifier: MIT
// Large files that are read in the background, with disks that fail, kernels that are
// old and memory that runs out.
#include "base/files/file_bytes.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/patience.h"

namespace {

std::atomic<bool> populates = true;         // else the kernel does not know the call
std::atomic<int64_t> readable = INT64_MAX;  // bytes of a file before the disk fails

}  // namespace

// The program's own calls, for everything that is linked into it.
extern "C" ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  if (offset >= readable) {
    errno = EIO;
    return -1;
  }
  return ::syscall(SYS_pread64, fd, buffer, count, offset);
}
extern "C" int madvise(void* address, size_t length, int advice) noexcept {
  if (advice == MADV_POPULATE_READ && !populates) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_madvise, address, length, advice));
}

namespace mnemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

std::string Content(int64_t size) {
  std::string content(static_cast<size_t>(size), '\0');
  for (size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<char>(i * 31 % 251 + i / kMiB);
  }
  return content;
}

// Parameter: read in the background, or by those who wait.
class FileBytesTest : public testing::TestWithParam<bool> {
 protected:
  FileBytesTest() {
    std::string pattern = testing::TempDir() + "/file-bytes-XXXXXX";
    dir_ = ::mkdtemp(pattern.data());
  }
  ~FileBytesTest() override {
    populates = true;
    readable = INT64_MAX;
    std::filesystem::remove_all(dir_);
  }

  LargeFile Write(const std::string& content) {
    std::ofstream(path(), std::ios::binary) << content;
    return Directory::Open(dir_)->OpenLarge("f", int64_t{1} << 40).value();
  }
  std::shared_ptr<FileBytes> Open(LargeFile file) {
    auto opened = FileBytes::Open(std::move(file), [this](std::string_view piece) {
      followed_ += piece;
      follow_(piece);
      count_ = static_cast<int64_t>(followed_.size());
    });
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (GetParam()) (*opened)->Start();
    return *std::move(opened);
  }
  std::shared_ptr<FileBytes> Open(const std::string& content) {
    return Open(Write(content));
  }
  std::string path() const { return dir_ + "/f"; }

  std::string dir_;
  std::function<void(std::string_view)> follow_ = [](std::string_view) {};
  std::string followed_;
  std::atomic<int64_t> count_ = 0;  // of followed_
};

INSTANTIATE_TEST_SUITE_P(, FileBytesTest, testing::Bool(), [](const auto& info) {
  return info.param ? "InTheBackground" : "ByWhoWaits";
});

TEST_P(FileBytesTest, IsReadOnceInOrder) {
  for (const bool known : {true, false}) {
    populates = known;
    for (const int64_t size : {int64_t{0}, int64_t{1}, 3 * kMiB + 7}) {
      const std::string content = Content(size);
      followed_.clear();
      const auto bytes = Open(content);
      for (const int64_t end : {size / 3, size / 2, size / 3, size}) {
        ASSERT_TRUE(bytes->Await(end).ok());
        EXPECT_EQ(bytes->view().substr(0, end), content.substr(0, end));
        EXPECT_GE(count_, end);
      }
      EXPECT_TRUE(bytes->Finish().ok());
      EXPECT_EQ(bytes->view(), content);
      EXPECT_EQ(followed_, content);
      EXPECT_TRUE(bytes->Finish().ok());
    }
  }
}

// Made from another file, in order, whatever was waited for.
TEST_P(FileBytesTest, MayBeMade) {
  const std::string content = Content(3 * kMiB + 7);
  int64_t made = 0, fails_at = INT64_MAX;
  absl::Status changed;
  const auto open = [&] {
    made = 0;
    followed_.clear();
    auto opened = FileBytes::Open(
        MadeFile{.path = "source",
                 .size = static_cast<int64_t>(content.size()),
                 .make = [&](int64_t begin, std::span<char> to) -> absl::Status {
                   EXPECT_EQ(begin, made);
                   made += static_cast<int64_t>(to.size());
                   if (made > fails_at) return absl::DataLossError("no more");
                   content.copy(to.data(), to.size(), static_cast<size_t>(begin));
                   return absl::OkStatus();
                 },
                 .check_unchanged = [&] { return changed; }},
        [this](std::string_view piece) { followed_ += piece; });
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (GetParam()) (*opened)->Start();
    return *std::move(opened);
  };
  auto bytes = open();
  for (const size_t end : {size_t{5}, content.size() / 2, content.size()}) {
    ASSERT_TRUE(bytes->Await(static_cast<int64_t>(end)).ok());
    EXPECT_TRUE(bytes->view().substr(0, end) ==
                std::string_view(content).substr(0, end));
  }
  EXPECT_TRUE(bytes->Finish().ok());
  EXPECT_TRUE(followed_ == content);
  changed = absl::DataLossError("changed");
  EXPECT_EQ(bytes->Finish().message(), "changed");
  changed = absl::OkStatus();
  fails_at = kMiB;
  bytes = open();
  EXPECT_EQ(bytes->Finish().message(), "no more");
  EXPECT_EQ(bytes->view().back(), '\0');
}

TEST_P(FileBytesTest, IsReadLittleFurtherThanWasWaitedFor) {
  const int64_t size = 40 * kMiB;
  const auto bytes = Open(Content(size));
  ASSERT_TRUE(bytes->Await(8).ok());
  const int64_t most = GetParam() ? 8 + 16 * kMiB : 8;
  EXPECT_TRUE(Eventually([&] { return count_ >= most; }));
  EXPECT_EQ(count_, most);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // reads no further
  EXPECT_EQ(count_, most);
  EXPECT_TRUE(bytes->Finish().ok());
  EXPECT_EQ(count_, size);
}

TEST_P(FileBytesTest, ManyMayWait) {
  const std::string content = Content(12 * kMiB + 5);
  const auto bytes = Open(content);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < 64; i += 4) {
        const int64_t begin = bytes->view().size() * i / 64;
        const int64_t end = bytes->view().size() * (i + 1) / 64;
        EXPECT_TRUE(bytes->Await(end).ok());
        EXPECT_EQ(bytes->view().substr(begin, end - begin),
                  std::string_view(content).substr(begin, end - begin));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(followed_, content);
}

TEST_P(FileBytesTest, ReleasedMemoryIsGivenBack) {
  const auto resident = [] {
    int64_t all = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return pages * ::sysconf(_SC_PAGE_SIZE);
  };
  const int64_t size = 64 * kMiB;
  follow_ = [this](std::string_view) { followed_.clear(); };
  const std::string content = Content(size);
  const auto bytes = Open(content);
  ASSERT_TRUE(bytes->Finish().ok());
  const int64_t before = resident();
  bytes->ReleaseBefore(size / 2 + 1);
  EXPECT_LT(resident(), before - size / 2 + 4 * kMiB);
  EXPECT_EQ(bytes->view()[size - 1], content[size - 1]);
  bytes->ReleaseBefore(size / 4);  // is already
  bytes->ReleaseBefore(size);
  EXPECT_LT(resident(), before - size + 4 * kMiB);
}

TEST_P(FileBytesTest, AFailingDiskIsDataLossAndLeavesZeros) {
  populates = false;  // as where the page of a mapped file cannot be read
  const int64_t size = 5 * kMiB, fails = 3 * kMiB;
  const std::string content = Content(size);
  LargeFile file = Write(content);
  readable = fails;
  const auto bytes = Open(std::move(file));
  EXPECT_TRUE(bytes->Await(fails).ok());
  EXPECT_EQ(bytes->view().substr(0, fails - kMiB), content.substr(0, fails - kMiB));
  for (const absl::Status& status :
       {bytes->Await(size), bytes->Await(fails + 1), bytes->Finish()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("cannot read"), HasSubstr("/f'")));
  }
  EXPECT_TRUE(bytes->Await(fails).ok());
  EXPECT_EQ(bytes->view().substr(fails), std::string(size - fails, '\0'));
}

TEST_P(FileBytesTest, AChangeSinceItWasOpenedIsFound) {
  const auto changed = [&](const std::function<void()>& change) {
    LargeFile file = Write("before");
    change();
    EXPECT_EQ(Open(std::move(file))->Finish().code(), absl::StatusCode::kDataLoss);
  };
  changed([&] { std::filesystem::resize_file(path(), 0); });
  changed([&] { std::ofstream(path(), std::ios::app) << "more"; });
  changed([&] {
    const auto then = std::filesystem::last_write_time(path());
    std::filesystem::last_write_time(path(), then + std::chrono::seconds(1));
  });
}

TEST_P(FileBytesTest, NoAddressSpaceIsNamed) {
  if (std::getenv("MNEMON_SANITIZED") != nullptr) {
    GTEST_SKIP() << "a sanitizer does not live with a limit of addresses";
  }
  Write("");
  const int64_t size = 1024 * kMiB;
  std::filesystem::resize_file(path(), size);
  LargeFile file = Directory::Open(dir_)->OpenLarge("f", size).value();
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const auto most = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGE_SIZE) + 64 * kMiB);
  const rlimit limit = {.rlim_cur = most, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  const absl::Status status = FileBytes::Open(std::move(file), {}).status();
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("the 1073741824 bytes of"), HasSubstr("/f'")));
  ASSERT_TRUE(GetErrorDetail(status)) << status;
  EXPECT_EQ(GetErrorDetail(status)->reason, "OUT_OF_MEMORY");
}

TEST_P(FileBytesTest, NoMemoryWhileItIsFollowedIsAnError) {
  follow_ = [](std::string_view) { throw std::bad_alloc(); };
  EXPECT_EQ(Open(Content(kMiB))->Await(1).code(), absl::StatusCode::kResourceExhausted);
}

// A thread with a stack of that size cannot be started.
TEST_P(FileBytesTest, IsReadWithoutAThread) {
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const std::string content = Content(3 * kMiB);
  const auto bytes = Open(content);
  EXPECT_EQ(pthread_setattr_default_np(&before), 0);
  EXPECT_TRUE(bytes->Finish().ok());
  EXPECT_EQ(followed_, content);
}

TEST_P(FileBytesTest, MayEndWhileItIsRead) {
  for (int i = 0; i < 20; ++i) {
    const auto bytes = Open(Content(kMiB));
    EXPECT_TRUE(bytes->Await(i * kMiB / 20).ok());
  }
}

TEST(FileBytes, ACopyIsThere) {
  FileBytes bytes("copied");
  bytes.Start();
  EXPECT_TRUE(bytes.Await(6).ok());
  EXPECT_TRUE(bytes.Finish().ok());
  EXPECT_EQ(bytes.view(), "copied");
  bytes.ReleaseBefore(6);
  EXPECT_EQ(FileBytes("").view(), "");
}

}  // namespace
}  // namespace mnemon
