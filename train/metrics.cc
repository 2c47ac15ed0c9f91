// SPDX-License-Identifier: MIT
#include "train/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr char kHeader[] =
    "step,loss,validation,learning_rate,gradient_norm,accuracy\n";

absl::Status Failed(const std::string& what, const std::string& path) {
  const int code = errno;
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return absl::Status(
      full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
      StrCat("cannot ", what, " ", path, ": ", std::strerror(code)));
}

}  // namespace

absl::StatusOr<MetricsFile> MetricsFile::Open(const std::string& path, int64_t bytes) {
  MetricsFile metrics(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644), path);
  if (metrics.file_ < 0) return Failed("open", path);
  struct stat state;
  if (::fstat(metrics.file_, &state) != 0) return Failed("examine", path);
  if (state.st_size < bytes) {
    return absl::DataLossError(StrCat(path, " has ", state.st_size,
                                      " bytes, the checkpoint was made with ", bytes));
  }
  if (::ftruncate(metrics.file_, bytes) != 0 ||
      ::lseek(metrics.file_, bytes, SEEK_SET) != bytes) {
    return Failed("cut", path);
  }
  metrics.bytes_ = bytes;
  if (bytes == 0) MNEMON_RETURN_IF_ERROR(metrics.Write(kHeader));
  return metrics;
}

MetricsFile::~MetricsFile() {
  if (file_ >= 0) ::close(file_);
}

MetricsFile::MetricsFile(MetricsFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      bytes_(other.bytes_) {}

absl::Status MetricsFile::Write(const std::string& text) {
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

absl::Status MetricsFile::Append(const MetricsRow& row) {
  const auto text = [](const std::optional<double>& number) {
    return number ? absl::StrFormat("%.9g", *number) : std::string();
  };
  return Write(absl::StrFormat("%d,%.9g,%s,%.9g,%.9g,%s\n", row.step, row.loss,
                               text(row.validation), row.learning_rate,
                               row.gradient_norm, text(row.accuracy)));
}

absl::Status MetricsFile::Sync() {
  return ::fsync(file_) == 0 ? absl::OkStatus() : Failed("sync", path_);
}

}  // namespace mnemon
