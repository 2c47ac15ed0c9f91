// SPDX-License-Identifier: MIT
// A disk that fails, and memory that runs out, while a file is read.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

#include "base/error.h"
#include "base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/io/temporary_directory.h"

namespace {

// Bytes that this thread can still read before the disk fails; negative: it does not.
thread_local int64_t readable = -1;

// The largest allocation of this thread that succeeds.
thread_local size_t largest = SIZE_MAX;

}  // namespace

// Not inlined: the compiler warns of free() where it sees that memory came from new.
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (bytes > largest) throw std::bad_alloc();
  if (void* memory = std::malloc(std::max<size_t>(bytes, 1))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

// The program's own pread(), for everything that is linked into it.
extern "C" ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  if (readable == 0) {
    errno = EIO;
    return -1;
  }
  if (readable > 0) count = std::min<size_t>(count, static_cast<size_t>(readable));
  const ssize_t n = ::syscall(SYS_pread64, fd, buffer, count, offset);
  if (readable > 0 && n > 0) readable -= n;
  return n;
}

namespace mnemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ReadFault, AFailingDiskIsDataLossAndNamesTheFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.Path("read_fault");
  std::ofstream(path) << std::string(4096, 'x');
  for (const int64_t before : {0, 1, 4095}) {
    readable = before;
    const absl::Status status = ReadFile(path, 1 << 20).status();
    readable = -1;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("cannot read"), HasSubstr("read_fault")));
  }
  EXPECT_EQ(ReadFile(path, 1 << 20)->size(), 4096u);
}

TEST(ReadFault, AFileTooLargeForTheMemoryIsNamed) {
  const TemporaryDirectory directory;
  const std::string path = directory.Path("read_memory");
  std::ofstream(path) << std::string(1 << 20, 'x');
  largest = 1 << 16;
  const absl::Status status = ReadFile(path, 1 << 20).status();
  largest = SIZE_MAX;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("the 1048576 bytes of"), HasSubstr("read_memory")));
  ASSERT_TRUE(GetErrorDetail(status)) << status;
  EXPECT_EQ(GetErrorDetail(status)->reason, "OUT_OF_MEMORY");
}

}  // namespace
}  // namespace mnemon
