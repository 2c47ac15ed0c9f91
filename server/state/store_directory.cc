// SPDX-License-Identifier: MIT
// FORMAT is written last, so that a directory without it holds at most the lock and
// what a creation that was cut short has left.
#include "server/state/store_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/file.h"
#include "base/lock_file.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr char kLockName[] = "LOCK";
constexpr char kFormatName[] = "FORMAT";
constexpr char kDatabaseName[] = "db";
constexpr char kFormatTitle[] = "mnemon session store";
constexpr int kFormatVersion = 1;
constexpr int64_t kMostFormatBytes = 4096;
constexpr size_t kIdBytes = 16;

absl::Status FormatError(const std::string& path, std::string_view what) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   StrCat("the session store ", Quoted(path), " ", what),
                   {.reason = "STORE_FORMAT"});
}

absl::Status CallFailed(std::string_view call, const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return MakeError(
      full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
      StrCat("cannot ", call, " ", Quoted(path), ": ",
             std::system_category().message(error)),
      {.reason = full             ? "STORE_FULL"
                 : error == EROFS ? "STORE_READ_ONLY"
                                  : "STORE_FAILED"});
}

// The mode that mkdir gives is cut by the umask; it never grants more than 0700.
absl::Status MakePrivateDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0) {
    if (errno == EEXIST) return absl::OkStatus();
    return CallFailed("create directory", path, errno);
  }
  if (::chmod(path.c_str(), 0700) != 0) return CallFailed("chmod", path, errno);
  const std::string parent = std::filesystem::path(path).parent_path();
  const Descriptor above(::open(parent.empty() ? "." : parent.c_str(),
                                O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!above.valid() || ::fsync(above.get()) != 0) {
    return CallFailed("sync directory", parent, errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator at(path, error), end;
  for (; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename());
  }
  if (error) return CallFailed("list directory", path, error.value());
  return names;
}

absl::StatusOr<Descriptor> Lock(const std::string& directory) {
  const std::string path = directory + "/" + kLockName;
  LockAttempt lock = TryLockFile(path);
  if (lock.file.valid()) return std::move(lock.file);
  if (lock.error == ELOOP)
    return FormatError(directory, "has a symbolic link as its LOCK");
  if (lock.error != EWOULDBLOCK) return CallFailed(lock.call, path, lock.error);
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      StrCat("the session store ", Quoted(directory), " is in use by process ",
             lock.holder > 0 ? StrCat(lock.holder) : std::string("(unknown)")),
      {.reason = "STORE_IN_USE"});
}

std::string DrawId() {
  std::random_device source;
  std::string id;
  while (id.size() < kIdBytes) id.push_back(static_cast<char>(source()));
  return id;
}

// The store's id.
absl::StatusOr<std::string> ReadFormat(const std::string& directory) {
  const absl::StatusOr<std::string> text =
      ReadFile(directory + "/" + kFormatName, kMostFormatBytes);
  if (!text.ok()) {
    return FormatError(directory, StrCat("has no readable format: ",
                                         std::string(text.status().message())));
  }
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n');
  int version = 0;
  if (lines.size() < 2 || lines[0] != kFormatTitle ||
      lines[1].compare(0, 8, "version ") != 0 ||
      !absl::SimpleAtoi(lines[1].substr(8), &version) || version < 1) {
    return FormatError(directory, "has a FORMAT that no version of mnemon has written");
  }
  if (version > kFormatVersion) {
    return FormatError(directory,
                       StrCat("has format version ", version, ", this program reads ",
                              kFormatVersion, " at most"));
  }
  if (lines.size() < 3 || lines[2].compare(0, 3, "id ") != 0 ||
      lines[2].size() != 3 + 2 * kIdBytes ||
      lines[2].find_first_not_of("0123456789abcdef", 3) != std::string::npos) {
    return FormatError(directory, "has a FORMAT without an id");
  }
  return absl::HexStringToBytes(lines[2].substr(3));
}

absl::StatusOr<std::string> CreateFormat(const std::string& directory) {
  const std::string id = DrawId();
  const std::string path = directory + "/" + kFormatName;
  if (absl::Status status =
          WriteFileDurably(path, StrCat(kFormatTitle, "\nversion ", kFormatVersion,
                                        "\nid ", absl::BytesToHexString(id), "\n"));
      !status.ok()) {
    return MakeError(status.code(), std::string(status.message()),
                     {.reason = status.code() == absl::StatusCode::kResourceExhausted
                                    ? "STORE_FULL"
                                    : "STORE_FAILED"});
  }
  if (::chmod(path.c_str(), 0600) != 0) return CallFailed("chmod", path, errno);
  return id;
}

absl::Status CheckNoLinks(const std::string& directory, const std::string& database) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(database));
  for (const std::string& name : names) {
    struct stat found;
    if (::lstat((database + "/" + name).c_str(), &found) == 0 &&
        !S_ISREG(found.st_mode)) {
      return FormatError(
          directory, StrCat("has ", Quoted(name), " in its database, which is ",
                            S_ISLNK(found.st_mode) ? "a symbolic link" : "no file"));
    }
  }
  return absl::OkStatus();
}

// RocksDB keeps what it was writing in such files when its process was killed, for ever
// where they were to be OPTIONS. One that cannot be removed only takes room.
absl::Status RemoveUnfinished(const std::string& database) {
  constexpr std::string_view kUnfinished = ".dbtmp";
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(database));
  for (const std::string& name : names) {
    if (name.ends_with(kUnfinished)) ::unlink((database + "/" + name).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StoreDirectory> StoreDirectory::Open(const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos) {
    return FormatError(path, "has no valid path");
  }
  MNEMON_RETURN_IF_ERROR(MakePrivateDirectory(path));
  // Before the lock is made in what may be somebody else's directory.
  bool is_store = false;
  const auto look = [&]() -> absl::Status {
    MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
    std::string other;
    is_store = false;
    for (const std::string& name : names) {
      if (name == kFormatName) is_store = true;
      if (name != kLockName && name.compare(0, 8, ".mnemon-") != 0) other = name;
    }
    if (is_store || other.empty()) return absl::OkStatus();
    return FormatError(
        path, StrCat("is none: it has ", Quoted(other), ", but no ", kFormatName));
  };
  MNEMON_RETURN_IF_ERROR(look());
  MNEMON_ASSIGN_OR_RETURN(Descriptor lock, Lock(path));
  // Another process may have made it a store before it let go of the lock.
  MNEMON_RETURN_IF_ERROR(look());
  std::string id;
  if (is_store) {
    MNEMON_ASSIGN_OR_RETURN(id, ReadFormat(path));
  } else {
    MNEMON_ASSIGN_OR_RETURN(id, CreateFormat(path));
  }
  const std::string database = path + "/" + kDatabaseName;
  struct stat found;
  if (::lstat(database.c_str(), &found) == 0 && !S_ISDIR(found.st_mode)) {
    return FormatError(path, "has a db that is not a directory");
  }
  MNEMON_RETURN_IF_ERROR(MakePrivateDirectory(database));
  MNEMON_RETURN_IF_ERROR(CheckNoLinks(path, database));
  MNEMON_RETURN_IF_ERROR(RemoveUnfinished(database));
  return StoreDirectory(path, std::move(lock), std::move(id));
}

}  // namespace mnemon
