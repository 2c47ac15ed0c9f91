// SPDX-License-Identifier: MIT
#include "train/run/row_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files/file.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

absl::Status Failed(const std::string& what, const std::string& path) {
  const int code = errno;
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return absl::Status(
      full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
      StrCat("cannot ", what, " ", path, ": ", std::strerror(code)));
}

}  // namespace

absl::StatusOr<RowFile> RowFile::Open(const std::string& path, std::string_view header,
                                      int64_t bytes) {
  RowFile rows(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644),
               path);
  if (rows.file_ < 0) return Failed("open", path);
  if (::ftruncate(rows.file_, bytes) != 0 ||
      ::lseek(rows.file_, bytes, SEEK_SET) != bytes) {
    return Failed("cut", path);
  }
  rows.bytes_ = bytes;
  if (bytes == 0 && !header.empty()) MNEMON_RETURN_IF_ERROR(rows.Append(header));
  return rows;
}

absl::StatusOr<RowFile> RowFile::OpenUpTo(
    const std::string& path, std::string_view header, int64_t least, int64_t step,
    const std::function<std::optional<int64_t>(std::string_view row)>& step_of) {
  absl::StatusOr<std::string> content = ReadFile(path, INT64_MAX);
  if (absl::IsNotFound(content.status())) content = "";
  MNEMON_RETURN_IF_ERROR(content.status());
  const std::string_view text = *content;
  size_t kept = 0;
  for (size_t end; (end = text.find('\n', kept)) != text.npos; kept = end + 1) {
    const std::string_view row = text.substr(kept, end - kept);
    if (kept == 0 && !header.empty()) {
      if (row == header) continue;
      break;
    }
    const std::optional<int64_t> of = step_of(row);
    if (!of || *of > step) break;
  }
  const auto bytes = static_cast<int64_t>(kept);
  if (bytes < least) {
    return absl::DataLossError(StrCat(path, " has ", bytes, " bytes up to update ",
                                      step, ", the checkpoint was made with ", least));
  }
  return Open(path, header, bytes);
}

RowFile::~RowFile() {
  if (file_ >= 0) ::close(file_);
}

RowFile::RowFile(RowFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      bytes_(other.bytes_) {}

absl::Status RowFile::Append(std::string_view row) {
  const std::string text = StrCat(row, "\n");
  size_t done = 0;
  while (done < text.size()) {
    ssize_t n = ::write(file_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Failed("write", path_);
    done += static_cast<size_t>(n);
  }
  bytes_ += static_cast<int64_t>(text.size());
  return absl::OkStatus();
}

absl::Status RowFile::Sync() {
  return ::fsync(file_) == 0 ? absl::OkStatus() : Failed("sync", path_);
}

}  // namespace mnemon
