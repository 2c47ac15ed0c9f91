// SPDX-License-Identifier: MIT
// Temporary names are ".mnemon-tmp-<pid>-<salt>-<count>" beside the destination. A
// writer holds an flock on its temporary file or directory, which the kernel releases
// when the writer ends: an unlocked one is a leftover, even if its process id has been
// reused.
#include "base/files/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>
#include <random>
#include <system_error>

#include "absl/strings/str_split.h"
#include "base/descriptor.h"
#include "base/files/file_kind.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr char kTemporaryPrefix[] = ".mnemon-tmp-";

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return absl::StatusCode::kResourceExhausted;
    case ELOOP:
    case ENXIO:
    case EINVAL:
    case ENAMETOOLONG:
      return absl::StatusCode::kInvalidArgument;
    case EIO:
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status Failed(std::string_view call, const std::string& path, int error) {
  return absl::Status(CodeOf(error), StrCat("cannot ", call, " ", Quoted(path), ": ",
                                            std::system_category().message(error)));
}

absl::Status CheckPath(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("an empty path names no file");
  if (path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(StrCat("NUL in path ", Quoted(path)));
  }
  return absl::OkStatus();
}

// Reads at most `count` bytes, at least 1, after the first `done` of `size`.
absl::StatusOr<size_t> ReadAt(int fd, const std::string& path, char* to, size_t count,
                              size_t done, size_t size) {
  for (;;) {
    const ssize_t n = ::pread(fd, to, count, static_cast<off_t>(done));
    if (n > 0) return static_cast<size_t>(n);
    if (n == 0) {
      return absl::DataLossError(StrCat(Quoted(path), " ended after ", done, " of ",
                                        size, " bytes while it was read"));
    }
    if (errno != EINTR) {
      return absl::DataLossError(Failed("read", path, errno).message());
    }
  }
}

// For a file that is too large: "; it is a GGUF file: ..", if its kind is known.
std::string KindOf(int fd) {
  char begin[kFileKindBytes];
  const ssize_t count = ::pread(fd, begin, sizeof(begin), 0);
  if (count <= 0) return "";
  const auto kind = FindFileKind({begin, static_cast<size_t>(count)});
  return kind ? StrCat("; it is ", Describe(*kind)) : "";
}

// Takes the result of open(), with errno as set by open.
absl::StatusOr<struct stat> StatOpened(const Descriptor& file, const std::string& path,
                                       int64_t max_bytes) {
  if (file.get() < 0) {
    if (errno == ELOOP) {
      return absl::InvalidArgumentError(
          StrCat(Quoted(path), " is a symbolic link, not a regular file"));
    }
    return Failed("open", path, errno);
  }
  struct stat found;
  if (::fstat(file.get(), &found) != 0) return Failed("stat", path, errno);
  if (!S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError(
        StrCat(Quoted(path), " is ", S_ISDIR(found.st_mode) ? "a directory, " : "",
               "not a regular file"));
  }
  if (found.st_size > max_bytes) {
    return absl::OutOfRangeError(StrCat(Quoted(path), " has ", found.st_size,
                                        " bytes, at most ", max_bytes, " are accepted",
                                        KindOf(file.get())));
  }
  return found;
}

absl::Status Unchanged(int fd, const std::string& path, int64_t size,
                       const timespec& modified) {
  struct stat after;
  if (::fstat(fd, &after) != 0) return Failed("stat", path, errno);
  if (after.st_size != size || after.st_mtim.tv_sec != modified.tv_sec ||
      after.st_mtim.tv_nsec != modified.tv_nsec) {
    return absl::DataLossError(StrCat(Quoted(path), " changed while it was read"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadOpened(Descriptor file, const std::string& path,
                                       int64_t max_bytes) {
  MNEMON_ASSIGN_OR_RETURN(const struct stat before, StatOpened(file, path, max_bytes));
  std::string bytes;
  try {
    bytes.resize(static_cast<size_t>(before.st_size));
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError(StrCat("the ", before.st_size, " bytes of ", Quoted(path)));
  }
  for (size_t done = 0; done < bytes.size();) {
    MNEMON_ASSIGN_OR_RETURN(const size_t count,
                            ReadAt(file.get(), path, bytes.data() + done,
                                   bytes.size() - done, done, bytes.size()));
    done += count;
  }
  MNEMON_RETURN_IF_ERROR(Unchanged(file.get(), path, before.st_size, before.st_mtim));
  return bytes;
}

// O_NONBLOCK: opening a FIFO must not wait for its writer.
constexpr int kReadFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

absl::Status SyncPath(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (fd.get() < 0) return Failed("open", path, errno);
  if (::fsync(fd.get()) != 0) return Failed("fsync", path, errno);
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, const std::string& path, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("write", path, errno);
    content.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

bool IsAt(int fd, const std::string& path) {
  struct stat opened, named;
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

void RemoveTree(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::string NextTemporaryName(const std::string& parent) {
  // Processes in different containers may share a directory and a process id.
  static const unsigned salt = std::random_device()();
  static std::atomic<uint64_t> count{0};
  return StrCat(parent, "/", kTemporaryPrefix, ::getpid(), "-", salt, "-", count++);
}

void RemoveLeftovers(const std::string& parent) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(parent.c_str()), ::closedir);
  if (dir == nullptr) return;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (!std::string_view(entry->d_name).starts_with(kTemporaryPrefix)) continue;
    const std::string path = StrCat(parent, "/", entry->d_name);
    struct stat status;
    if (::lstat(path.c_str(), &status) != 0) continue;
    if (S_ISLNK(status.st_mode)) {
      // A link cannot be locked; its writer creates another if it is gone.
      ::unlink(path.c_str());
      continue;
    }
    const Descriptor fd(::open(path.c_str(), kReadFlags));
    if (fd.get() < 0 || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (IsAt(fd.get(), path)) RemoveTree(path);
  }
}

enum class Kind { kFile, kDirectory };

// A locked temporary file or directory; the destructor removes it.
class Temporary {
 public:
  static absl::StatusOr<Temporary> Create(const std::string& parent, Kind kind) {
    constexpr int kAttempts = 100;
    for (int i = 0; i < kAttempts; ++i) {
      std::string path = NextTemporaryName(parent);
      if (kind == Kind::kDirectory && ::mkdir(path.c_str(), 0777) != 0) {
        if (errno == EEXIST) continue;
        return Failed("make directory", path, errno);
      }
      Descriptor fd(
          kind == Kind::kDirectory
              ? ::open(path.c_str(), kReadFlags | O_DIRECTORY)
              : ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (fd.get() < 0) {
        const bool raced = errno == (kind == Kind::kDirectory ? ENOENT : EEXIST);
        if (raced) continue;
        return Failed("create", path, errno);
      }
      // Another writer may take a file that is not locked yet for a leftover.
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
      if (!IsAt(fd.get(), path)) continue;
      return Temporary(std::move(path), std::move(fd));
    }
    return absl::UnavailableError(StrCat("no free temporary name in ", Quoted(parent)));
  }
  ~Temporary() {
    if (!path_.empty()) RemoveTree(path_);
  }
  Temporary(Temporary&& other) noexcept
      : path_(std::exchange(other.path_, {})), fd_(std::move(other.fd_)) {}

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

 private:
  Temporary(std::string path, Descriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  Descriptor fd_;
};

bool Rename(const std::string& from, const std::string& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
}

// For file systems without RENAME_NOREPLACE or RENAME_EXCHANGE.
absl::Status PublishPlainly(const std::string& temporary, const std::string& path) {
  const std::string aside = temporary + "-old";
  struct stat old;
  const bool moved = ::lstat(path.c_str(), &old) == 0 && S_ISDIR(old.st_mode) &&
                     Rename(path, aside, 0);
  if (!Rename(temporary, path, 0)) {
    const int error = errno;
    if (moved) Rename(aside, path, 0);
    return Failed("rename to", path, error);
  }
  MNEMON_RETURN_IF_ERROR(SyncPath(ParentOf(path)));
  if (moved) RemoveTree(aside);
  return absl::OkStatus();
}

// Renames `temporary` to `path`. The previous content of `path`, if any, is then at the
// temporary name; on failure nothing has changed.
absl::Status Publish(const std::string& temporary, const std::string& path) {
  unsigned flags = RENAME_NOREPLACE;
  bool done = Rename(temporary, path, flags);
  if (!done && errno == EEXIST) {
    flags = RENAME_EXCHANGE;
    done = Rename(temporary, path, flags);
  }
  if (!done) {
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) {
      return PublishPlainly(temporary, path);
    }
    return Failed("rename to", path, errno);
  }
  const absl::Status synced = SyncPath(ParentOf(path));
  if (!synced.ok()) Rename(path, temporary, flags);
  return synced;
}

absl::Status SyncTree(const std::string& root) {
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(root, error), end;
       !error && it != end; it.increment(error)) {
    if (it->is_symlink()) continue;
    MNEMON_RETURN_IF_ERROR(SyncPath(it->path().string()));
  }
  if (error) return Failed("list", root, error.value());
  return SyncPath(root);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  MNEMON_RETURN_IF_ERROR(CheckPath(path));
  return ReadOpened(Descriptor(::open(path.c_str(), kReadFlags)), path, max_bytes);
}

absl::StatusOr<LargeFile> LargeFile::Open(const std::string& path, int64_t max_bytes) {
  MNEMON_RETURN_IF_ERROR(CheckPath(path));
  Descriptor file(::open(path.c_str(), kReadFlags & ~O_NOFOLLOW));
  MNEMON_ASSIGN_OR_RETURN(const struct stat found, StatOpened(file, path, max_bytes));
  return LargeFile(path, file.Release(), found.st_size, found.st_mtim);
}

LargeFile::~LargeFile() {
  if (fd_ >= 0) ::close(fd_);
}

LargeFile::LargeFile(LargeFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      modified_(other.modified_) {}

absl::Status LargeFile::ReadThrough(int64_t begin, int64_t end) const {
  char piece[4096];
  while (begin < end) {
    const auto most = std::min<size_t>(sizeof(piece), static_cast<size_t>(end - begin));
    MNEMON_ASSIGN_OR_RETURN(const size_t count,
                            ReadAt(fd_, path_, piece, most, static_cast<size_t>(begin),
                                   static_cast<size_t>(size_)));
    begin += static_cast<int64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status LargeFile::Read(int64_t begin, std::span<char> to) const {
  for (size_t done = 0; done < to.size();) {
    MNEMON_ASSIGN_OR_RETURN(
        const size_t count,
        ReadAt(fd_, path_, to.data() + done, to.size() - done,
               static_cast<size_t>(begin) + done, static_cast<size_t>(size_)));
    done += count;
  }
  return absl::OkStatus();
}

absl::Status LargeFile::CheckUnchanged() const {
  return Unchanged(fd_, path_, size_, modified_);
}

absl::StatusOr<Directory> Directory::Open(const std::string& path) {
  MNEMON_RETURN_IF_ERROR(CheckPath(path));
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == ENOTDIR) {
    return absl::InvalidArgumentError(StrCat(Quoted(path), " is not a directory"));
  }
  if (fd < 0) return Failed("open directory", path, errno);
  return Directory(path, fd);
}

Directory::~Directory() {
  if (fd_ >= 0) ::close(fd_);
}

Directory::Directory(Directory&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

absl::StatusOr<int> Directory::OpenBelow(const std::string& name,
                                         std::string& shown) const {
  MNEMON_RETURN_IF_ERROR(CheckPath(name));
  shown = StrCat(path_, "/", name);
  const std::vector<std::string> parts = absl::StrSplit(name, "/");
  Descriptor dir;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty() || parts[i] == "." || parts[i] == "..") {
      return absl::InvalidArgumentError(
          StrCat(Quoted(name), " is not the name of a file below ", Quoted(path_)));
    }
    const int at = i == 0 ? fd_ : dir.get();
    if (i + 1 == parts.size()) {
      return ::openat(at, parts[i].c_str(), kReadFlags);
    }
    Descriptor next(::openat(at, parts[i].c_str(), kReadFlags | O_DIRECTORY));
    if (next.get() < 0) return Failed("open", shown, errno);
    dir = std::move(next);
  }
  return absl::InternalError("unreachable: a name has at least one component");
}

absl::StatusOr<std::string> Directory::Read(const std::string& name,
                                            int64_t max_bytes) const {
  std::string shown;
  MNEMON_ASSIGN_OR_RETURN(const int fd, OpenBelow(name, shown));
  return ReadOpened(Descriptor(fd), shown, max_bytes);
}

absl::StatusOr<LargeFile> Directory::OpenLarge(const std::string& name,
                                               int64_t max_bytes) const {
  std::string shown;
  MNEMON_ASSIGN_OR_RETURN(const int fd, OpenBelow(name, shown));
  Descriptor file(fd);
  MNEMON_ASSIGN_OR_RETURN(const struct stat found, StatOpened(file, shown, max_bytes));
  return LargeFile(std::move(shown), file.Release(), found.st_size, found.st_mtim);
}

absl::StatusOr<std::vector<std::string>> Directory::List() const {
  // A separate descriptor, because readdir moves its position.
  const int fd = ::openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed("list", path_, errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(fd), ::closedir);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

bool Directory::Replaced() const {
  struct stat opened, named;
  return ::fstat(fd_, &opened) != 0 || ::stat(path_.c_str(), &named) != 0 ||
         opened.st_dev != named.st_dev || opened.st_ino != named.st_ino;
}

struct DurableFile::Impl {
  std::string path;
  Temporary temporary;
};

DurableFile::DurableFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DurableFile::~DurableFile() = default;
DurableFile::DurableFile(DurableFile&&) noexcept = default;

absl::StatusOr<DurableFile> DurableFile::Create(const std::string& path) {
  MNEMON_RETURN_IF_ERROR(CheckPath(path));
  struct stat old;
  const bool exists = ::lstat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    return absl::InvalidArgumentError(
        StrCat(Quoted(path), " exists and is not a regular file; not replaced"));
  }
  const std::string parent = ParentOf(path);
  RemoveLeftovers(parent);
  MNEMON_ASSIGN_OR_RETURN(Temporary temporary, Temporary::Create(parent, Kind::kFile));
  if (exists && ::fchmod(temporary.fd(), old.st_mode & 07777) != 0) {
    return Failed("set the mode of", temporary.path(), errno);
  }
  return DurableFile(std::make_unique<Impl>(Impl{path, std::move(temporary)}));
}

absl::Status DurableFile::Write(std::string_view piece) {
  return WriteAll(impl_->temporary.fd(), impl_->path, piece);
}

absl::Status DurableFile::Publish() {
  if (::fsync(impl_->temporary.fd()) != 0) return Failed("fsync", impl_->path, errno);
  return mnemon::Publish(impl_->temporary.path(), impl_->path);
}

absl::Status WriteFileDurably(const std::string& path, std::string_view content) {
  MNEMON_ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(path));
  MNEMON_RETURN_IF_ERROR(file.Write(content));
  return file.Publish();
}

absl::Status WriteDirectoryDurably(
    const std::string& path,
    const std::function<absl::Status(const std::string& dir)>& fill) {
  MNEMON_RETURN_IF_ERROR(CheckPath(path));
  std::string destination = path;
  while (destination.size() > 1 && destination.back() == '/') destination.pop_back();
  struct stat old;
  if (::lstat(destination.c_str(), &old) == 0 && !S_ISDIR(old.st_mode)) {
    return absl::InvalidArgumentError(
        StrCat(Quoted(path), " exists and is not a directory; not replaced"));
  }
  const std::string parent = ParentOf(destination);
  RemoveLeftovers(parent);
  MNEMON_ASSIGN_OR_RETURN(const Temporary temporary,
                          Temporary::Create(parent, Kind::kDirectory));
  MNEMON_RETURN_IF_ERROR(fill(temporary.path()));
  MNEMON_RETURN_IF_ERROR(SyncTree(temporary.path()));
  return Publish(temporary.path(), destination);
}

absl::Status ReplaceSymlink(const std::string& link, const std::string& target) {
  MNEMON_RETURN_IF_ERROR(CheckPath(link));
  MNEMON_RETURN_IF_ERROR(CheckPath(target));
  struct stat old;
  if (::lstat(link.c_str(), &old) == 0 && !S_ISLNK(old.st_mode)) {
    return absl::InvalidArgumentError(
        StrCat(Quoted(link), " exists and is not a link; not replaced"));
  }
  const std::string parent = ParentOf(link);
  RemoveLeftovers(parent);
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts; ++i) {
    const std::string temporary = NextTemporaryName(parent);
    if (::symlink(target.c_str(), temporary.c_str()) != 0) {
      if (errno == EEXIST) continue;
      return Failed("make link", link, errno);
    }
    if (Rename(temporary, link, 0)) return SyncPath(parent);
    const int error = errno;
    ::unlink(temporary.c_str());
    if (error != ENOENT) return Failed("rename to", link, error);
  }
  return absl::UnavailableError(StrCat("no free temporary name in ", Quoted(parent)));
}

absl::Status MakeDirectories(const std::string& path) {
  MNEMON_RETURN_IF_ERROR(CheckPath(path));
  std::string made;
  for (const auto& part : std::filesystem::path(path)) {
    const std::string parent = made.empty() ? "." : made;
    made = (std::filesystem::path(made) / part).string();
    const int error = ::mkdir(made.c_str(), 0777) == 0 ? 0 : errno;
    std::error_code ignored;
    if (error == 0) {
      MNEMON_RETURN_IF_ERROR(SyncPath(parent));
    } else if (!std::filesystem::is_directory(made, ignored)) {
      return Failed("make directory", made, error);
    }
  }
  return absl::OkStatus();
}

}  // namespace mnemon
