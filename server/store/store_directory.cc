// SPDX-License-Identifier: MIT
// FORMAT says "new" until both copies have been made: later, copies that are both
// missing were removed. There is one in the directory and one in db/: either is enough.
#include "server/store/store_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/files/lock_file.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "xxhash.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using Format = StoreDirectory::Format;

constexpr char kLockName[] = "LOCK";
constexpr char kFormatName[] = "FORMAT";
constexpr char kDatabaseName[] = "db";
constexpr char kFormatTitle[] = "mnemon session store";
constexpr char kOldDatabaseName[] = "db-1";
constexpr int64_t kMostFormatBytes = 4096;
constexpr size_t kStoreIdBytes = 16;

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

// Takes the rights of group and others. Where the directory belongs to another user, as
// a volume may, only its owner can; the files in it are private all the same.
void ClosePrivateDirectory(const std::string& path) {
  constexpr mode_t kOthers = 077, kAll = 07777;
  struct stat found;
  if (::stat(path.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) return;
  if ((found.st_mode & kOthers) == 0) return;
  const bool closed = ::chmod(path.c_str(), found.st_mode & kAll & ~kOthers) == 0;
  LogEvent(LogLevel::kWarning,
           closed ? "store_directory_closed" : "store_directory_open",
           {{"path", path}, {"mode", int64_t{found.st_mode & kAll}}});
}

absl::Status SyncFolder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid() && ::fsync(folder.get()) == 0) return absl::OkStatus();
  return CallFailed("sync directory", path, errno);
}

// The mode that mkdir gives is cut by the umask; it never grants more than 0700.
absl::Status MakePrivateDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0) {
    if (errno != EEXIST) return CallFailed("create directory", path, errno);
    ClosePrivateDirectory(path);
    return absl::OkStatus();
  }
  if (::chmod(path.c_str(), 0700) != 0) return CallFailed("chmod", path, errno);
  const std::string parent = fs::path(path).parent_path();
  return SyncFolder(parent.empty() ? "." : parent);
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator at(path, error), end;
  for (; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename());
  }
  if (error) return CallFailed("list directory", path, error.value());
  return names;
}

absl::Status InUse(const std::string& directory, int64_t holder) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      StrCat("the session store ", Quoted(directory), " is in use by process ",
             holder > 0 ? StrCat(holder) : std::string("(unknown)")),
      {.reason = "STORE_IN_USE"});
}

absl::StatusOr<Descriptor> Lock(const std::string& directory) {
  const std::string path = directory + "/" + kLockName;
  LockAttempt lock = TryLockFile(path);
  if (lock.file.valid()) return std::move(lock.file);
  if (lock.error == ELOOP)
    return FormatError(directory, "has a symbolic link as its LOCK");
  if (lock.error != EWOULDBLOCK) return CallFailed(lock.call, path, lock.error);
  return InUse(directory, lock.holder);
}

absl::StatusOr<Descriptor> LockFolder(const std::string& directory) {
  Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return CallFailed("open directory", directory, errno);
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return folder;
  if (errno != EWOULDBLOCK) return CallFailed("lock directory", directory, errno);
  return InUse(directory, HolderOfLockFile(directory + "/" + kLockName));
}

std::string DrawId() {
  std::random_device source;
  std::string id;
  while (id.size() < kStoreIdBytes) id.push_back(static_cast<char>(source()));
  return id;
}

std::string CheckLine(std::string_view text) {
  char line[32];
  std::snprintf(line, sizeof line, "check %016" PRIx64 "\n",
                static_cast<uint64_t>(XXH3_64bits(text.data(), text.size())));
  return line;
}

std::string FormatText(const Format& format) {
  std::string text =
      StrCat(kFormatTitle, "\nversion ", format.version, "\nid ",
             absl::BytesToHexString(format.id), "\n", format.created ? "" : "new\n");
  return text + CheckLine(text);
}

// nullopt: no version of mnemon has written it, or it is damaged. Format 1 has no
// check.
std::optional<Format> ParseFormat(std::string_view text) {
  const size_t check = text.rfind("check ");
  const std::vector<std::string> lines =
      absl::StrSplit(std::string(text.substr(0, check)), '\n', absl::SkipEmpty());
  Format format;
  if (lines.size() < 3 || lines[0] != kFormatTitle ||
      !lines[1].starts_with("version ") ||
      !absl::SimpleAtoi(lines[1].substr(8), &format.version) || format.version < 1) {
    return std::nullopt;
  }
  const bool checked =
      check != text.npos && text.substr(check) == CheckLine(text.substr(0, check));
  if (!checked && (format.version > 1 || lines.size() > 3)) return std::nullopt;
  // What a newer one has after its version is not known here.
  if (format.version > StoreDirectory::kFormat) return format;
  if (!lines[2].starts_with("id ") || lines[2].size() != 3 + 2 * kStoreIdBytes ||
      lines[2].find_first_not_of("0123456789abcdef", 3) != std::string::npos) {
    return std::nullopt;
  }
  format.id = absl::HexStringToBytes(lines[2].substr(3));
  format.created = lines.size() < 4 || lines[3] != "new";
  return format;
}

std::array<std::string, 2> FormatPaths(const std::string& directory) {
  return {StrCat(directory, "/", kFormatName),
          StrCat(directory, "/", kDatabaseName, "/", kFormatName)};
}

// Where both can be read, the one of the newer version: the other may be older than the
// store.
absl::StatusOr<Format> ReadFormat(const std::string& directory) {
  bool there = false;
  std::optional<Format> newest;
  for (const std::string& path : FormatPaths(directory)) {
    const absl::StatusOr<std::string> text = ReadFile(path, kMostFormatBytes);
    there = there || !absl::IsNotFound(text.status());
    const std::optional<Format> format = text.ok() ? ParseFormat(*text) : std::nullopt;
    if (!format) continue;
    if (format->version > StoreDirectory::kFormat) {
      return FormatError(directory, StrCat("has format version ", format->version,
                                           ", this program reads ",
                                           StoreDirectory::kFormat, " at most"));
    }
    if (!newest || format->version > newest->version ||
        (format->version == newest->version && format->created)) {
      newest = format;
    }
  }
  if (newest) return *newest;
  return FormatError(directory,
                     there ? "has a FORMAT that no version of mnemon has written"
                           : "has no FORMAT: another program's files, or not a store");
}

absl::Status WriteFormat(const std::string& path, const Format& format) {
  const std::string text = FormatText(format);
  const absl::StatusOr<std::string> before = ReadFile(path, kMostFormatBytes);
  if (before.ok() && *before == text) return absl::OkStatus();
  if (absl::Status status = WriteFileDurably(path, text); !status.ok()) {
    return MakeError(status.code(), std::string(status.message()),
                     {.reason = status.code() == absl::StatusCode::kResourceExhausted
                                    ? "STORE_FULL"
                                    : "STORE_FAILED"});
  }
  if (::chmod(path.c_str(), 0600) != 0) return CallFailed("chmod", path, errno);
  return absl::OkStatus();
}

absl::Status WriteFormats(const std::string& directory, const Format& format) {
  for (const std::string& path : FormatPaths(directory)) {
    MNEMON_RETURN_IF_ERROR(WriteFormat(path, format));
  }
  return absl::OkStatus();
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return CallFailed("rename", from, errno);
  return absl::OkStatus();
}

// Links are not followed.
fs::file_type TypeOf(const std::string& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type();
}

bool Exists(const std::string& path) {
  return TypeOf(path) != fs::file_type::not_found &&
         TypeOf(path) != fs::file_type::none;
}

// The database of format 1, db/, becomes db/a; can be cut short anywhere.
absl::Status MoveFormat1(const std::string& path) {
  const std::string database = path + "/" + kDatabaseName;
  const std::string aside = path + "/" + kOldDatabaseName;
  const bool moved = Exists(database + "/a");
  if (!moved && !Exists(aside) && Exists(database)) {
    MNEMON_RETURN_IF_ERROR(Rename(database, aside));
  }
  MNEMON_RETURN_IF_ERROR(MakePrivateDirectory(database));
  if (!moved && Exists(aside)) {
    MNEMON_RETURN_IF_ERROR(Rename(aside, database + "/a"));
  }
  return absl::OkStatus();
}

// Renames it to `name`, with a number where that is taken.
absl::Status SetAside(const std::string& path, const std::string& name) {
  std::string to = name;
  for (int n = 2; Exists(to); ++n) to = StrCat(name, ".", n);
  MNEMON_RETURN_IF_ERROR(Rename(path, to));
  LogEvent(LogLevel::kError, "store_copy_set_aside", {{"folder", to}});
  return absl::OkStatus();
}

// Replaces both copies by what a repair has gathered; can be cut short anywhere.
absl::Status TakeRepaired(const std::string& directory,
                          std::initializer_list<std::string> copies) {
  const std::string repaired = StoreDirectory::repaired_copy(directory);
  if (!Exists(repaired)) return absl::OkStatus();
  for (const std::string& copy : copies) {
    if (Exists(copy)) MNEMON_RETURN_IF_ERROR(SetAside(copy, copy + ".damaged"));
  }
  MNEMON_RETURN_IF_ERROR(Rename(repaired, *copies.begin()));
  return SyncFolder(directory + "/" + kDatabaseName);
}

absl::Status CheckNoLinks(const std::string& directory, const std::string& own) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(own));
  for (const std::string& name : names) {
    const std::string path = own + "/" + name;
    const fs::file_type type = TypeOf(path);
    if (type != fs::file_type::regular && type != fs::file_type::directory &&
        Exists(path)) {
      return FormatError(
          directory,
          StrCat("has ", Quoted(name), " in a folder of its own, which is ",
                 type == fs::file_type::symlink ? "a symbolic link" : "no file"));
    }
  }
  return absl::OkStatus();
}

// Sets folders aside where files belong, which somebody has put there or an interrupted
// repair has left. Removes files that RocksDB was writing when its process was killed,
// since it never removes those of OPTIONS.
absl::Status TidyFolder(const std::string& own) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(own));
  for (const std::string& name : names) {
    const std::string path = own + "/" + name;
    if (TypeOf(path) == fs::file_type::directory) {
      MNEMON_RETURN_IF_ERROR(SetAside(path, own + ".damaged"));
    } else if (name.ends_with(".dbtmp")) {
      ::unlink(path.c_str());  // only takes room where it stays
    }
  }
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& directory, const std::string& folder) {
  if (Exists(folder) && TypeOf(folder) != fs::file_type::directory) {
    return FormatError(directory,
                       StrCat("has ", Quoted(folder.substr(directory.size() + 1)),
                              ", which is not a directory"));
  }
  return MakePrivateDirectory(folder);
}

}  // namespace

absl::StatusOr<StoreDirectory> StoreDirectory::Open(const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos) {
    return FormatError(path, "has no valid path");
  }
  if (!Exists(path)) MNEMON_RETURN_IF_ERROR(MakePrivateDirectory(path));
  // Before the lock is made in what may be somebody else's directory.
  bool is_store = false;
  const auto look = [&]() -> absl::Status {
    MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
    std::string other;
    for (const std::string& name : names) {
      if (name != kLockName && !name.starts_with(".mnemon-")) other = name;
    }
    is_store = std::ranges::any_of(FormatPaths(path), Exists);
    if (is_store || other.empty()) return absl::OkStatus();
    return FormatError(
        path, StrCat("is none: it has ", Quoted(other), ", but no ", kFormatName));
  };
  MNEMON_RETURN_IF_ERROR(look());
  MNEMON_ASSIGN_OR_RETURN(Descriptor folder, LockFolder(path));
  MNEMON_ASSIGN_OR_RETURN(Descriptor lock, Lock(path));
  // Another process may have made it a store before it let go of the lock.
  MNEMON_RETURN_IF_ERROR(look());
  ClosePrivateDirectory(path);
  StoreDirectory made(path, std::move(lock), std::move(folder));
  if (is_store) {
    MNEMON_ASSIGN_OR_RETURN(made.format_, ReadFormat(path));
  } else {
    made.format_ = {.id = DrawId(), .created = false};
    MNEMON_RETURN_IF_ERROR(WriteFormat(FormatPaths(path)[0], made.format_));
  }
  if (made.format() == 1) MNEMON_RETURN_IF_ERROR(MoveFormat1(path));
  MNEMON_RETURN_IF_ERROR(MakeFolder(path, path + "/" + kDatabaseName));
  if (made.format() == kFormat) {
    MNEMON_RETURN_IF_ERROR(WriteFormats(path, made.format_));
  }
  MNEMON_RETURN_IF_ERROR(TakeRepaired(path, {made.copy(0), made.copy(1)}));
  for (const std::string& own : {made.copy(0), made.copy(1), made.snapshots()}) {
    MNEMON_RETURN_IF_ERROR(MakeFolder(path, own));
    MNEMON_RETURN_IF_ERROR(CheckNoLinks(path, own));
    MNEMON_RETURN_IF_ERROR(TidyFolder(own));
  }
  return made;
}

absl::Status StoreDirectory::Find(const std::string& path) {
  MNEMON_ASSIGN_OR_RETURN(const Format format, ReadFormat(path));
  if (format.version == kFormat) return absl::OkStatus();
  return FormatError(path, StrCat("has format version ", format.version,
                                  "; a start of the server brings it to ", kFormat));
}

absl::StatusOr<StoreDirectory> StoreDirectory::View(const std::string& path) {
  MNEMON_RETURN_IF_ERROR(Find(path));
  MNEMON_ASSIGN_OR_RETURN(Descriptor folder, LockFolder(path));
  MNEMON_ASSIGN_OR_RETURN(Format format, ReadFormat(path));
  std::error_code error;
  std::string pattern = fs::temp_directory_path(error) / "mnemon-check-XXXXXX";
  if (error || ::mkdtemp(pattern.data()) == nullptr) {
    return CallFailed("create directory", pattern, error ? error.value() : errno);
  }
  StoreDirectory made(pattern, Descriptor(), std::move(folder));
  made.temporary_ = std::shared_ptr<void>(nullptr, [pattern](void*) {
    std::error_code ignored;
    fs::remove_all(pattern, ignored);
  });
  made.format_ = {.id = std::move(format.id)};
  const std::string whole = fs::absolute(path, error);
  for (const std::string& own : {made.copy(0), made.copy(1), made.snapshots()}) {
    MNEMON_RETURN_IF_ERROR(MakeDirectories(own));
    const std::string real = whole + own.substr(pattern.size());
    if (!Exists(real)) continue;
    MNEMON_RETURN_IF_ERROR(CheckNoLinks(path, real));
    MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(real));
    for (const std::string& name : names) {
      if (name == kLockName || fs::is_directory(real + "/" + name, error)) continue;
      fs::create_symlink(real + "/" + name, own + "/" + name, error);
      if (error) return CallFailed("create link", own + "/" + name, error.value());
    }
  }
  fs::copy_file(whole + "/db/SYNCED", made.synced_number(), error);
  return made;
}

absl::Status StoreDirectory::Finish() {
  Format whole{.id = format_.id};
  MNEMON_RETURN_IF_ERROR(WriteFormats(path_, whole));
  format_ = std::move(whole);
  return absl::OkStatus();
}

namespace {

struct SyncedContent {
  uint64_t number;
  uint64_t check;
};

uint64_t CheckOf(uint64_t number) { return ~(number * 0x9e3779b97f4a7c15u); }

}  // namespace

uint64_t SyncedNumber::Read() const {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  SyncedContent content{};
  if (::pread(file.get(), &content, sizeof content, 0) != sizeof content) return 0;
  return content.check == CheckOf(content.number) ? content.number : 0;
}

void SyncedNumber::Write(uint64_t number) {
  if (!file_.valid()) {
    file_ = Descriptor(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  }
  const SyncedContent content{number, CheckOf(number)};
  // One page: whole or not there for whoever reads it after a kill.
  if (::pwrite(file_.get(), &content, sizeof content, 0) != sizeof content) {
    file_.Close();
  }
}

}  // namespace mnemon
