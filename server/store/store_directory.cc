// SPDX-License-Identifier: MIT
// FORMAT says "new" until both copies have been made: where it does not, and both are
// missing, they were removed. It lies in the directory and in db/: where one is damaged
// or missing, the other one counts.
#include "server/store/store_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <system_error>
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

// Takes the rights of group and others from one that exists. Where it belongs to
// another user, as a volume may, only its owner can; the files in it are private all
// the same.
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

// The mode that mkdir gives is cut by the umask; it never grants more than 0700.
absl::Status MakePrivateDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0) {
    if (errno != EEXIST) return CallFailed("create directory", path, errno);
    ClosePrivateDirectory(path);
    return absl::OkStatus();
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

// The directory itself: it stays locked where LOCK is removed.
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

struct Format {
  int version = 0;
  std::string id;
  bool created = true;

  bool operator==(const Format&) const = default;
};

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

// Nullopt: no version of mnemon has written it, or it is damaged. The first format had
// no check.
std::optional<Format> ParseFormat(std::string_view text) {
  const size_t check = text.rfind("check ");
  const std::vector<std::string> lines =
      absl::StrSplit(std::string(text.substr(0, check)), '\n', absl::SkipEmpty());
  Format format;
  if (lines.size() < 3 || lines[0] != kFormatTitle ||
      lines[1].compare(0, 8, "version ") != 0 ||
      !absl::SimpleAtoi(lines[1].substr(8), &format.version) || format.version < 1) {
    return std::nullopt;
  }
  const bool checked =
      check != text.npos && text.substr(check) == CheckLine(text.substr(0, check));
  if (!checked && (format.version > 1 || lines.size() > 3)) return std::nullopt;
  // What a newer one has behind its version is not known here.
  if (format.version > StoreDirectory::kFormat) return format;
  if (lines[2].compare(0, 3, "id ") != 0 || lines[2].size() != 3 + 2 * kStoreIdBytes ||
      lines[2].find_first_not_of("0123456789abcdef", 3) != std::string::npos) {
    return std::nullopt;
  }
  format.id = absl::HexStringToBytes(lines[2].substr(3));
  format.created = lines.size() < 4 || lines[3] != "new";
  return format;
}

// Of the newest version, where both can be read: one of them may be older than the
// store.
absl::StatusOr<Format> ReadFormat(const std::string& directory) {
  bool there = false;
  std::optional<Format> newest;
  for (const std::string& path :
       {StrCat(directory, "/", kFormatName),
        StrCat(directory, "/", kDatabaseName, "/", kFormatName)}) {
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

// Where db/ is there, in it too.
absl::Status WriteFormats(const std::string& directory, const Format& format) {
  MNEMON_RETURN_IF_ERROR(WriteFormat(StrCat(directory, "/", kFormatName), format));
  return WriteFormat(StrCat(directory, "/", kDatabaseName, "/", kFormatName), format);
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return CallFailed("rename", from, errno);
  return absl::OkStatus();
}

bool Exists(const std::string& path) {
  struct stat found;
  return ::lstat(path.c_str(), &found) == 0;
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

// `path`, or with a number behind it where that is taken.
std::string FreeName(const std::string& path) {
  std::string name = path;
  for (int n = 2; Exists(name); ++n) name = StrCat(path, ".", n);
  return name;
}

absl::Status SyncFolder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid() && ::fsync(folder.get()) == 0) return absl::OkStatus();
  return CallFailed("sync directory", path, errno);
}

absl::Status SetAside(const std::string& path, const std::string& name) {
  const std::string to = FreeName(name);
  MNEMON_RETURN_IF_ERROR(Rename(path, to));
  LogEvent(LogLevel::kError, "store_copy_set_aside", {{"folder", to}});
  return absl::OkStatus();
}

// Folders where files belong: put there by hand, or left by a repair that was cut
// short.
absl::Status SetFoldersAside(const std::string& own) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(own));
  for (const std::string& name : names) {
    struct stat found;
    const std::string path = own + "/" + name;
    if (::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) {
      MNEMON_RETURN_IF_ERROR(SetAside(path, own + ".damaged"));
    }
  }
  return absl::OkStatus();
}

// What a repair has gathered takes the place of both copies; can be cut short anywhere.
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

absl::Status CheckNoLinks(const std::string& directory, const std::string& database) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(database));
  for (const std::string& name : names) {
    struct stat found;
    if (::lstat((database + "/" + name).c_str(), &found) == 0 &&
        !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
      return FormatError(
          directory, StrCat("has ", Quoted(name), " in a folder of its own, which is ",
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

// A folder of the store's own.
absl::Status MakeFolder(const std::string& directory, const std::string& folder) {
  struct stat found;
  if (::lstat(folder.c_str(), &found) == 0 && !S_ISDIR(found.st_mode)) {
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
    is_store = false;
    for (const std::string& name : names) {
      if (name == kFormatName) is_store = true;
      if (name != kLockName && name.compare(0, 8, ".mnemon-") != 0) other = name;
    }
    is_store = is_store || Exists(path + "/" + kDatabaseName + "/" + kFormatName);
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
    MNEMON_ASSIGN_OR_RETURN(Format format, ReadFormat(path));
    made.id_ = std::move(format.id);
    made.version_ = format.version;
    made.created_ = format.created;
  } else {
    made.id_ = DrawId();
    made.created_ = false;
    MNEMON_RETURN_IF_ERROR(WriteFormat(StrCat(path, "/", kFormatName),
                                       {made.version_, made.id_, made.created_}));
  }
  if (made.version_ == 1) MNEMON_RETURN_IF_ERROR(MoveFormat1(path));
  MNEMON_RETURN_IF_ERROR(MakeFolder(path, path + "/" + kDatabaseName));
  if (made.version_ == kFormat) {
    MNEMON_RETURN_IF_ERROR(
        WriteFormats(path, {made.version_, made.id_, made.created_}));
  }
  MNEMON_RETURN_IF_ERROR(TakeRepaired(path, {made.copy(0), made.copy(1)}));
  for (const std::string& own : {made.copy(0), made.copy(1), made.snapshots()}) {
    MNEMON_RETURN_IF_ERROR(MakeFolder(path, own));
    MNEMON_RETURN_IF_ERROR(SetFoldersAside(own));
    MNEMON_RETURN_IF_ERROR(CheckNoLinks(path, own));
    MNEMON_RETURN_IF_ERROR(RemoveUnfinished(own));
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
  namespace fs = std::filesystem;
  MNEMON_RETURN_IF_ERROR(Find(path));
  MNEMON_ASSIGN_OR_RETURN(Descriptor folder, LockFolder(path));
  MNEMON_ASSIGN_OR_RETURN(const Format format, ReadFormat(path));
  std::error_code error;
  std::string pattern = fs::temp_directory_path(error) / "mnemon-check-XXXXXX";
  if (error || ::mkdtemp(pattern.data()) == nullptr) {
    return CallFailed("create directory", pattern, error ? error.value() : errno);
  }
  StoreDirectory made(pattern, Descriptor(), std::move(folder));
  made.temporary_ = true;
  made.id_ = format.id;
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

StoreDirectory::StoreDirectory(StoreDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, false)),
      lock_(std::move(other.lock_)),
      folder_(std::move(other.folder_)),
      id_(std::move(other.id_)),
      version_(other.version_),
      created_(other.created_) {}

StoreDirectory::~StoreDirectory() {
  std::error_code ignored;
  if (temporary_) std::filesystem::remove_all(path_, ignored);
}

absl::Status StoreDirectory::Finish() {
  MNEMON_RETURN_IF_ERROR(WriteFormats(path_, {kFormat, id_, true}));
  version_ = kFormat;
  created_ = true;
  return absl::OkStatus();
}

}  // namespace mnemon
