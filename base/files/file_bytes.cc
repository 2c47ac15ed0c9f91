// SPDX-License-Identifier: MIT
#include "base/files/file_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// Fits the L2 cache, where the bytes are followed.
constexpr int64_t kPiece = int64_t{1} << 19;
// How far the background thread reads past what was waited for.
constexpr int64_t kAhead = int64_t{16} << 20;

// Bytes in the pages that end at `end` or before.
int64_t WholePages(int64_t end) {
  static const auto kPage = static_cast<int64_t>(::sysconf(_SC_PAGE_SIZE));
  return end / kPage * kPage;
}

}  // namespace

FileBytes::FileBytes(std::optional<LargeFile> file, std::optional<MadeFile> made,
                     Follow follow, int64_t size)
    : file_(std::move(file)),
      made_(std::move(made)),
      follow_(std::move(follow)),
      size_(size) {
  if (size == 0) return;
  const int access = PROT_READ | (file_ ? 0 : PROT_WRITE);
  const int flags = MAP_PRIVATE | (file_ ? 0 : MAP_ANONYMOUS);
  void* const mapped = ::mmap(nullptr, static_cast<size_t>(size), access, flags,
                              file_ ? file_->fd() : -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<char*>(mapped);
}

FileBytes::FileBytes(std::string_view bytes)
    : FileBytes(std::nullopt, std::nullopt, {}, static_cast<int64_t>(bytes.size())) {
  if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
  read_ = size_;
}

absl::StatusOr<std::shared_ptr<FileBytes>> FileBytes::Open(LargeFile file,
                                                           Follow follow) {
  const int64_t size = file.size();
  const std::string what = StrCat("the ", size, " bytes of ", Quoted(file.path()));
  return CatchOutOfMemory(what, [&]() -> absl::StatusOr<std::shared_ptr<FileBytes>> {
    return std::shared_ptr<FileBytes>(
        new FileBytes(std::move(file), std::nullopt, std::move(follow), size));
  });
}

absl::StatusOr<std::shared_ptr<FileBytes>> FileBytes::Open(MadeFile file,
                                                           Follow follow) {
  const int64_t size = file.size;
  const std::string what =
      StrCat("the ", size, " bytes that are made of ", Quoted(file.path));
  return CatchOutOfMemory(what, [&]() -> absl::StatusOr<std::shared_ptr<FileBytes>> {
    return std::shared_ptr<FileBytes>(
        new FileBytes(std::nullopt, std::move(file), std::move(follow), size));
  });
}

FileBytes::~FileBytes() {
  if (reader_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wanted_changed_.notify_all();
    reader_.join();
  }
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(size_));
}

void FileBytes::Start() {
  MNEMON_CHECK(!reader_.joinable());
  if (!file_ && !made_) return;
  std::lock_guard lock(mutex_);
  try {
    reader_ = std::thread([this] { Run(); });
    reading_ = true;
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
}

// Touching a page that cannot be read kills the process, but only returns an error
// here; in that case, and if the kernel lacks the call, read() reports the reason.
absl::Status FileBytes::Fetch(int64_t begin, int64_t end) {
  if (made_) {
    return made_->make(begin, {data_ + begin, static_cast<size_t>(end - begin)});
  }
  const int64_t from = WholePages(begin);
  if (::madvise(data_ + from, static_cast<size_t>(end - from), MADV_POPULATE_READ) ==
      0) {
    return absl::OkStatus();
  }
  return file_->ReadThrough(begin, end);
}

// Reads up to `end`, at most one piece; without the lock, which is held before and
// after.
void FileBytes::ReadOn(std::unique_lock<std::mutex>& lock, int64_t end) {
  const int64_t begin = read_;
  end = std::min(end, begin + kPiece);
  lock.unlock();
  const absl::Status status = CatchOutOfMemory("a file that is read", [&] {
    MNEMON_RETURN_IF_ERROR(Fetch(begin, end));
    if (follow_) follow_(view().substr(begin, end - begin));
    return absl::OkStatus();
  });
  lock.lock();
  if (status.ok()) {
    read_ = end;
    return;
  }
  const int64_t from = WholePages(begin);
  MNEMON_CHECK(::mmap(data_ + from, static_cast<size_t>(size_ - from), PROT_READ,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
  status_ = status;
}

void FileBytes::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_changed_.wait(lock, [this] { return stop_ || read_ < wanted_ + kAhead; });
    if (stop_ || !status_.ok() || read_ == size_) return;
    ReadOn(lock, std::min(size_, wanted_ + kAhead));
    read_changed_.notify_all();
  }
}

absl::Status FileBytes::Await(int64_t end) {
  MNEMON_CHECK(end <= size_);
  std::unique_lock lock(mutex_);
  if (end > wanted_) {
    wanted_ = end;
    wanted_changed_.notify_one();
  }
  while (read_ < end && status_.ok()) {
    if (reading_) {
      read_changed_.wait(lock);
      continue;
    }
    reading_ = true;
    ReadOn(lock, end);
    reading_ = false;
    read_changed_.notify_all();
  }
  return read_ >= end ? absl::OkStatus() : status_;
}

absl::Status FileBytes::Finish() {
  MNEMON_RETURN_IF_ERROR(Await(size_));
  if (made_) return made_->check_unchanged();
  return file_ ? file_->CheckUnchanged() : absl::OkStatus();
}

void FileBytes::ReleaseBefore(int64_t end) {
  const int64_t to = WholePages(end);
  int64_t from = released_;
  while (from < to && !released_.compare_exchange_weak(from, to)) {
  }
  if (from >= to) return;
  ::madvise(data_ + from, static_cast<size_t>(to - from), MADV_DONTNEED);
}

}  // namespace mnemon
