// SPDX-License-Identifier: MIT
#include "train/run/run_directory.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/files/lock_file.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kLockName = "LOCK";

std::optional<int64_t> StepOf(const std::string& name) {
  if (name.rfind(kStepPrefix, 0) != 0) return std::nullopt;
  const char* begin = name.data() + kStepPrefix.size();
  const char* end = name.data() + name.size();
  int64_t step = 0;
  auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

absl::Status FileSystemError(const std::string& what, const std::error_code& error) {
  return absl::InternalError(StrCat(what, ": ", error.message()));
}

absl::StatusOr<std::vector<std::string>> List(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return FileSystemError("cannot list " + path, error);
  return names;
}

// Without a file where the file system has no locks.
absl::StatusOr<Descriptor> Lock(const std::string& path) {
  LockAttempt lock = TryLockFile(StrCat(path, "/", kLockName));
  if (lock.file.valid()) return std::move(lock.file);
  const int error = lock.error;
  if (error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP) return Descriptor();
  if (error == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        StrCat(path, " is in use by process ",
               lock.holder > 0 ? StrCat(lock.holder) : std::string("(unknown)"),
               ", which trains in it: wait for its end, or choose another --out"));
  }
  return FileSystemError(StrCat("cannot ", lock.call, " ", path, "/", kLockName),
                         std::error_code(error, std::generic_category()));
}

absl::StatusOr<std::vector<std::string>> ListUsable(const std::string& path,
                                                    bool resume) {
  MNEMON_ASSIGN_OR_RETURN(std::vector<std::string> names, List(path));
  names.erase(std::remove(names.begin(), names.end(), kLockName), names.end());
  if (resume || names.empty()) return names;
  return absl::FailedPreconditionError(
      StrCat(path, " is not empty: continue the run in it with --resume, choose ",
             "another --out, or remove it"));
}

// Removes every step-N that `drop` wants removed.
absl::Status RemoveSteps(const std::string& path,
                         const std::function<bool(int64_t)>& drop) {
  MNEMON_ASSIGN_OR_RETURN(std::vector<std::string> names, List(path));
  for (const std::string& name : names) {
    std::optional<int64_t> step = StepOf(name);
    if (!step || !drop(*step)) continue;
    std::error_code error;
    fs::remove_all(fs::path(path) / name, error);
    if (error) return FileSystemError(StrCat("cannot remove ", path, "/", name), error);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunDirectory> RunDirectory::Open(const std::string& path, bool resume) {
  MNEMON_RETURN_IF_ERROR(MakeDirectories(path));
  // Checked before a lock is made in what may not be a run, and again under the lock.
  MNEMON_RETURN_IF_ERROR(ListUsable(path, resume).status());
  MNEMON_ASSIGN_OR_RETURN(Descriptor lock, Lock(path));
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ListUsable(path, resume));
  RunDirectory run(path, std::move(lock));
  std::error_code error;
  const fs::path target = fs::read_symlink(fs::path(path) / "last", error);
  if (error) {
    // Checkpoints are complete when they have their name.
    for (const std::string& name : names) run.last_ = std::max(run.last_, StepOf(name));
    return run;
  }
  run.last_ = StepOf(target.string());
  if (!run.last_) {
    return absl::FailedPreconditionError(
        StrCat(path, "/last points to ", target.string(), ", not to a step-N"));
  }
  const int64_t last = *run.last_;
  MNEMON_RETURN_IF_ERROR(
      RemoveSteps(path, [last](int64_t step) { return step > last; }));
  return run;
}

std::string RunDirectory::checkpoint_path(int64_t step) const {
  return StrCat(path_, "/", kStepPrefix, step);
}

absl::Status RunDirectory::Save(int64_t step, const CheckpointContent& content,
                                int64_t best_step, int64_t keep) {
  MNEMON_RETURN_IF_ERROR(WriteCheckpoint(checkpoint_path(step), content));
  MNEMON_RETURN_IF_ERROR(ReplaceSymlink(path_ + "/last", StrCat(kStepPrefix, step)));
  last_ = step;
  return Prune(best_step, keep);
}

absl::Status RunDirectory::Prune(int64_t best_step, int64_t keep) const {
  if (best_step > 0) {
    MNEMON_RETURN_IF_ERROR(
        ReplaceSymlink(path_ + "/best", StrCat(kStepPrefix, best_step)));
  }
  MNEMON_ASSIGN_OR_RETURN(std::vector<std::string> names, List(path_));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    if (std::optional<int64_t> found = StepOf(name)) steps.push_back(*found);
  }
  std::sort(steps.rbegin(), steps.rend());
  if (static_cast<int64_t>(steps.size()) <= keep) return absl::OkStatus();
  const int64_t oldest_kept = steps[keep - 1];
  return RemoveSteps(
      path_, [&](int64_t old) { return old < oldest_kept && old != best_step; });
}

}  // namespace mnemon
