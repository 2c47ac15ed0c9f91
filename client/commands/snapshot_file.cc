// SPDX-License-Identifier: MIT
#include "client/commands/snapshot_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon::client {
namespace {

// Waits until `fd` is ready for `events`, or has an error that its next use reports.
absl::Status Await(int fd, short events, int stop) {
  pollfd ready[] = {{fd, events, 0}, {stop, POLLIN, 0}};
  while (poll(ready, 2, -1) < 0 && errno == EINTR) {
  }
  return ready[1].revents != 0 ? absl::CancelledError("stopped") : absl::OkStatus();
}

absl::StatusOr<size_t> ReadSome(int fd, char* to, size_t most,
                                const std::string& name) {
  while (true) {
    const ssize_t count = read(fd, to, most);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) {
      return absl::DataLossError(
          StrCat("cannot read ", name, ": ", std::strerror(errno)));
    }
  }
}

absl::Status Empty(const std::string& name) {
  return absl::InvalidArgumentError(StrCat(name, " is empty: it holds no snapshot"));
}

}  // namespace

absl::StatusOr<SnapshotOutput> SnapshotOutput::Open(const std::string& path, int stop) {
  if (path == "-") return SnapshotOutput(std::nullopt, stop);
  MNEMON_ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(path));
  return SnapshotOutput(std::move(file), stop);
}

absl::Status SnapshotOutput::Write(std::string_view part) {
  if (file_) return file_->Write(part);
  while (!part.empty()) {
    MNEMON_RETURN_IF_ERROR(Await(STDOUT_FILENO, POLLOUT, stop_));
    // A ready pipe takes this much without blocking.
    const ssize_t count =
        write(STDOUT_FILENO, part.data(), std::min<size_t>(part.size(), PIPE_BUF));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(
          StrCat("cannot write standard output: ", std::strerror(errno)));
    }
    part.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status SnapshotOutput::Publish() {
  return file_ ? file_->Publish() : absl::OkStatus();
}

absl::StatusOr<SnapshotInput> SnapshotInput::Open(const std::string& path, int stop) {
  const bool standard = path == "-";
  const std::string name = standard ? "standard input" : Quoted(path);
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  Descriptor file(standard ? -1
                           : open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const int fd = standard ? STDIN_FILENO : file.get();
  struct stat facts;
  if ((!standard && fd < 0) || fstat(fd, &facts) != 0) {
    const std::string text = StrCat("cannot open ", name, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(text)
                           : absl::FailedPreconditionError(text);
  }
  if (!S_ISREG(facts.st_mode)) {
    if (standard) return CopyOf(fd, name, stop);
    return absl::InvalidArgumentError(
        StrCat(name, " is not a regular file; - reads standard input"));
  }
  // A part of standard input may have been read already.
  const off_t begin = lseek(fd, 0, SEEK_CUR);
  const int64_t size = facts.st_size - std::max<off_t>(begin, 0);
  if (size <= 0) return Empty(name);
  return SnapshotInput(name, std::move(file), File(nullptr, std::fclose), fd, size);
}

absl::StatusOr<SnapshotInput> SnapshotInput::CopyOf(int input, std::string name,
                                                    int stop) {
  constexpr size_t kPiece = size_t{1} << 18;
  File copy(std::tmpfile(), std::fclose);
  const auto failed = [&] {
    return absl::ResourceExhaustedError(
        StrCat("cannot copy ", name, " to a temporary file: ", std::strerror(errno)));
  };
  if (copy == nullptr) return failed();
  const int fd = fileno(copy.get());
  std::vector<char> piece(kPiece);
  int64_t size = 0;
  while (true) {
    MNEMON_RETURN_IF_ERROR(Await(input, POLLIN, stop));
    MNEMON_ASSIGN_OR_RETURN(const size_t count,
                            ReadSome(input, piece.data(), kPiece, name));
    if (count == 0) break;
    for (size_t done = 0; done < count;) {
      const ssize_t written = write(fd, piece.data() + done, count - done);
      if (written < 0 && errno != EINTR) return failed();
      if (written > 0) done += static_cast<size_t>(written);
    }
    size += static_cast<int64_t>(count);
  }
  if (size == 0) return Empty(name);
  if (lseek(fd, 0, SEEK_SET) != 0) return failed();
  return SnapshotInput(std::move(name), Descriptor(), std::move(copy), fd, size);
}

absl::StatusOr<size_t> SnapshotInput::Read(char* to, size_t most) {
  MNEMON_ASSIGN_OR_RETURN(const size_t count, ReadSome(fd_, to, most, name_));
  read_ += static_cast<int64_t>(count);
  return count;
}

absl::Status SnapshotInput::Rewind() {
  if (lseek(fd_, -std::exchange(read_, 0), SEEK_CUR) >= 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      StrCat("cannot read ", name_, " again: ", std::strerror(errno)));
}

}  // namespace mnemon::client
