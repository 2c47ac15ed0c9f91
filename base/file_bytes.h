// SPDX-License-Identifier: MIT
// The bytes of a large file, or of one that is made while it is read, in memory of
// their own: read once, in their order, in the background or by those who wait for
// them, and given back to the system from the front.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file.h"

namespace mnemon {

// A file that is nowhere, but made of another one.
struct MadeFile {
  std::string path;  // for messages
  int64_t size = 0;
  // Writes the bytes from `begin` on, as many as `to` has room for. Called for all of
  // them in their order, by one thread at a time.
  std::function<absl::Status(int64_t begin, std::span<char> to)> make;
  // Behind the last of them: DATA_LOSS when what they were made of changed meanwhile.
  std::function<absl::Status()> check_unchanged;
};

// Safe for concurrent calls, but for Start.
class FileBytes {
 public:
  // Called once with every byte, piece by piece in their order, by the thread that
  // reads them, before a wait for them ends.
  using Follow = std::function<void(std::string_view piece)>;

  // Of an open file, of which nothing has been read yet. RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::shared_ptr<FileBytes>> Open(LargeFile file, Follow follow);
  static absl::StatusOr<std::shared_ptr<FileBytes>> Open(MadeFile file, Follow follow);
  // A copy, all of it there. Throws std::bad_alloc.
  explicit FileBytes(std::string_view bytes);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  // Reads in the background from now on, a little further than was waited for. Before,
  // and where no thread can be started, Await reads, and not a byte too many.
  void Start();

  // All bytes, to be read when they were waited for; zeros where that failed. Reading
  // them ends the process where the file was cut short meanwhile.
  std::string_view view() const { return {data_, static_cast<size_t>(size_)}; }
  // Waits until the bytes before `end` <= view().size() have been read. DATA_LOSS when
  // the read fails or ends early; RESOURCE_EXHAUSTED.
  absl::Status Await(int64_t end);
  // Waits for all bytes. DATA_LOSS also when the file changed since it was opened.
  absl::Status Finish();
  // Gives the memory of the bytes before `end` back, as far as it is whole pages; they
  // have been waited for and must not be read any more.
  void ReleaseBefore(int64_t end);

 private:
  FileBytes(std::optional<LargeFile> file, std::optional<MadeFile> made, Follow follow,
            int64_t size);
  absl::Status Fetch(int64_t begin, int64_t end);
  void ReadOn(std::unique_lock<std::mutex>& lock, int64_t end);
  void Run();

  const std::optional<LargeFile> file_;  // one of the two; none: a copy
  const std::optional<MadeFile> made_;
  const Follow follow_;  // called by one thread at a time
  const int64_t size_;
  char* data_ = nullptr;

  std::mutex mutex_;
  std::condition_variable wanted_changed_, read_changed_;
  // Guarded by mutex_:
  int64_t wanted_ = 0;
  int64_t read_ = 0;
  bool reading_ = false;  // by a waiting thread, or for ever by reader_
  bool stop_ = false;
  absl::Status status_;  // the first failure ends the reading

  std::atomic<int64_t> released_ = 0;
  std::thread reader_;
};

}  // namespace mnemon
