// SPDX-License-Identifier: MIT
// The bytes of a large file, or of one that is generated while it is read, in their own
// memory: read once, in order, in the background or by those who wait for them, and
// returned to the system from the front.
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
#include "base/files/file.h"

namespace mnemon {

// A virtual file that is generated from another.
struct MadeFile {
  std::string path;  // for messages
  int64_t size = 0;
  // Writes the bytes from `begin` on, as many as `to` has room for. Called for all
  // bytes in order, by one thread at a time.
  std::function<absl::Status(int64_t begin, std::span<char> to)> make;
  // Called after the last byte: DATA_LOSS if the source changed meanwhile.
  std::function<absl::Status()> check_unchanged;
};

// Safe for concurrent calls, except for Start.
class FileBytes {
 public:
  // Called once with every byte, piece by piece in order, by the thread that reads
  // them, before a wait for them ends.
  using Follow = std::function<void(std::string_view piece)>;

  // Bytes of an open file; reads nothing yet. RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::shared_ptr<FileBytes>> Open(LargeFile file, Follow follow);
  static absl::StatusOr<std::shared_ptr<FileBytes>> Open(MadeFile file, Follow follow);
  // A complete copy. Throws std::bad_alloc.
  explicit FileBytes(std::string_view bytes);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  // Starts to read in the background, a little ahead of what was waited for. Before
  // that, and if no thread can be started, Await reads, and not a byte more than
  // needed.
  void Start();

  // All bytes. They may be read once waited for; zeros if reading failed. Reading them
  // kills the process if the file was truncated meanwhile.
  std::string_view view() const { return {data_, static_cast<size_t>(size_)}; }
  // Waits until the bytes before `end` <= view().size() have been read. DATA_LOSS if
  // the read fails or ends early; RESOURCE_EXHAUSTED.
  absl::Status Await(int64_t end);
  // Waits for all bytes. DATA_LOSS also if the file changed since it was opened.
  absl::Status Finish();
  // Returns the memory of the bytes before `end` to the system, in whole pages. They
  // must have been waited for, and must not be read any more.
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
  bool reading_ = false;  // by a waiting thread, or always by reader_
  bool stop_ = false;
  absl::Status status_;  // the first failure ends the reading

  std::atomic<int64_t> released_ = 0;
  std::thread reader_;
};

}  // namespace mnemon
