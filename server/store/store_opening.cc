// SPDX-License-Identifier: MIT
#include "server/store/store_opening.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/store/store_status.h"
#include "server/store/write_ahead_log.h"

namespace mnemon {
namespace {

struct FoundCopy {
  bool missing = false;
  absl::Status status;              // why it was not opened
  std::unique_ptr<StoreCopy> copy;  // null: missing, or not opened
  int64_t gaps = 0;                 // that were left out
};

absl::Status Damaged(const char* what) {
  return MakeError(absl::StatusCode::kDataLoss, what, {.reason = "STORE_DAMAGED"});
}

absl::Status OpenWhole(const StoreCopy::Place& place, const StoreFacts& facts,
                       FoundCopy& found) {
  MNEMON_RETURN_IF_ERROR(CheckLogs(*place.files, place.path, place.id, facts.synced));
  MNEMON_ASSIGN_OR_RETURN(const std::optional<LogStart> start,
                          FindLogStart(*place.files, place.path, place.id));
  MNEMON_RETURN_IF_ERROR(CutTornTail(*place.files, place.path));
  MNEMON_ASSIGN_OR_RETURN(auto opened,
                          StoreCopy::Open(place, {.format_1 = facts.format_1}));
  if (start && !opened->HasBefore(*start)) {
    // Its lists of tables are older than its logs.
    found.gaps = 1;
    return Damaged("a copy of the session store lacks tables");
  }
  found.copy = std::move(opened);
  return absl::OkStatus();
}

FoundCopy Find(const StoreCopy::Place& place, const StoreFacts& facts) {
  FoundCopy found;
  const absl::StatusOr<StoreCopy::Content> content = StoreCopy::Look(place);
  if (!content.ok()) {
    found.status = content.status();
  } else if (*content == StoreCopy::Content::kNone) {
    found.missing = true;
  } else if (*content == StoreCopy::Content::kUnknown) {
    found.status = Damaged("a copy of the session store has no file CURRENT");
  } else {
    found.status = OpenWhole(place, facts, found);
  }
  if (!found.status.ok()) {
    LogEvent(LogLevel::kError, "store_copy_not_opened",
             {{"folder", place.path}, {"detail", std::string(found.status.message())}});
  }
  return found;
}

// What can be read of a copy whose logs, or nothing worse, are damaged.
void Salvage(const StoreCopy::Place& place, const StoreFacts& facts, FoundCopy& found) {
  if (found.copy != nullptr || !absl::IsDataLoss(found.status)) return;
  const auto start = FindLogStart(*place.files, place.path, place.id);
  const absl::StatusOr<int64_t> gaps = SalvageLogs(*place.files, place.path, place.id);
  if (!start.ok() || !gaps.ok()) return;
  auto opened = StoreCopy::Open(place, {.format_1 = facts.format_1, .salvaged = true});
  if (!opened.ok()) return;
  found.copy = *std::move(opened);
  found.gaps += *gaps;
  if (*start && !found.copy->HasBefore(**start)) ++found.gaps;
}

// The copy that leads: whole, with the highest number; where none is, one that is
// behind; -1: there is none of these.
int PrimaryOf(const std::array<FoundCopy, 2>& found, uint64_t synced) {
  using Extent = StoreCopy::Extent;
  int primary = -1;
  for (const Extent extent : {Extent::kWhole, Extent::kBehind}) {
    for (const int which : {0, 1}) {
      const StoreCopy* const copy = found[which].copy.get();
      if (copy == nullptr || copy->extent() != extent) continue;
      // Made to be filled, and cut short before it knew that.
      if (copy->number() == 0 && synced > 0) continue;
      if (primary < 0 || copy->number() > found[primary].copy->number()) {
        primary = which;
      }
    }
    if (primary >= 0) break;
  }
  return primary;
}

absl::StatusOr<OpenedCopies> Create(const std::array<StoreCopy::Place, 2>& places) {
  OpenedCopies opened;
  for (const int which : {0, 1}) {
    MNEMON_ASSIGN_OR_RETURN(opened.copies[which],
                            StoreCopy::Open(places[which], {.create = true}));
  }
  opened.equal = true;
  return opened;
}

// Moves the files of a copy that is not used any more, but may be read by other means,
// to a new folder, `aside` with a number.
absl::Status SetCopyAside(const StoreCopy::Place& place, std::string aside) {
  const rocksdb::IOOptions options;
  const std::string first = aside;
  for (int n = 2; place.files->FileExists(aside, options, nullptr).ok(); ++n) {
    aside = StrCat(first, ".", n);
  }
  MNEMON_RETURN_IF_ERROR(
      StoreStatus(place.files->CreateDirIfMissing(aside, options, nullptr)));
  std::vector<std::string> names;
  MNEMON_RETURN_IF_ERROR(
      StoreStatus(place.files->GetChildren(place.path, options, &names, nullptr)));
  for (const std::string& name : names) {
    if (name == "." || name == "..") continue;
    MNEMON_RETURN_IF_ERROR(StoreStatus(place.files->RenameFile(
        place.path + "/" + name, aside + "/" + name, options, nullptr)));
  }
  LogEvent(LogLevel::kError, "store_copy_set_aside", {{"folder", aside}});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreCopy>> ReopenStoreCopy(
    const StoreCopy::Place& place) {
  FoundCopy found = Find(place, {});
  if (!found.status.ok() && !absl::IsDataLoss(found.status)) return found.status;
  return std::move(found.copy);
}

absl::StatusOr<OpenedCopies> OpenStoreCopies(
    const std::array<StoreCopy::Place, 2>& places, const StoreFacts& facts) {
  std::array<FoundCopy, 2> found;
  found[0] = Find(places[0], facts);
  if (facts.format_1) {
    if (found[0].missing) {
      // One that was never used.
      MNEMON_ASSIGN_OR_RETURN(
          found[0].copy,
          StoreCopy::Open(places[0], {.create = true, .format_1 = true}));
    }
    found[1].missing = true;
  } else {
    found[1] = Find(places[1], facts);
  }
  if (found[0].missing && found[1].missing) {
    if (!facts.created) return Create(places);
    return Damaged("both copies of the session store are gone");
  }

  int primary = PrimaryOf(found, facts.synced);
  const bool whole = primary >= 0 &&
                     found[primary].copy->extent() == StoreCopy::Extent::kWhole &&
                     found[primary].copy->number() >= facts.synced;
  if (!whole) {
    for (const FoundCopy& one : found) {
      if (!one.status.ok() && !absl::IsDataLoss(one.status)) return one.status;
    }
    for (const int which : {0, 1}) Salvage(places[which], facts, found[which]);
    primary = PrimaryOf(found, facts.synced);
  }
  if (primary < 0) {
    if (!facts.created) {
      // A power failure has left parts of what had not been made.
      for (const auto& place : places) MNEMON_RETURN_IF_ERROR(StoreCopy::Wipe(place));
      return Create(places);
    }
    return Damaged(
        "neither copy of the session store can be opened; run the server once with "
        "--repair, on a copy of the directory first");
  }

  if (found[primary].copy->extent() == StoreCopy::Extent::kBehind) {
    // What it lacks may have been acknowledged since, by what rests on it.
    ++found[primary].gaps;
    MNEMON_RETURN_IF_ERROR(found[primary].copy->SetExtent(StoreCopy::Extent::kWhole));
  }

  OpenedCopies opened;
  for (const int which : {0, 1}) {
    const FoundCopy& one = found[which];
    using Extent = StoreCopy::Extent;
    opened.found[which] = one.missing        ? "missing"
                          : !one.status.ok() ? std::string(one.status.message())
                          : one.copy->extent() == Extent::kPart   ? kCopyFilling
                          : one.copy->extent() == Extent::kBehind ? kCopyBehind
                          : one.copy->number() < found[primary].copy->number()
                              ? kCopyBehind
                              : kCopyWhole;
  }
  opened.primary = primary;
  const uint64_t number = found[primary].copy->number();
  opened.last = std::max(number, facts.synced);
  opened.lost = facts.synced > number ? facts.synced - number : 0;
  opened.gaps = found[primary].gaps;
  if (opened.lost > 0 || opened.gaps > 0) {
    LogEvent(LogLevel::kError, "store_commits_lost",
             {{"commits", static_cast<int64_t>(opened.lost)},
              {"gaps", opened.gaps},
              {"last", static_cast<int64_t>(number)}});
  }
  FoundCopy& other = found[1 - primary];
  if (other.copy != nullptr) {
    opened.last = std::max(opened.last, other.copy->number());
    using Extent = StoreCopy::Extent;
    Extent extent = other.copy->extent();
    opened.equal = extent == Extent::kWhole && other.copy->number() == number &&
                   other.gaps == 0 && opened.gaps == 0;
    if (extent == Extent::kWhole && !opened.equal) extent = Extent::kBehind;
    if (other.copy->number() < facts.synced || other.gaps > 0) extent = Extent::kPart;
    if (!opened.equal && extent != other.copy->extent() &&
        !other.copy->SetExtent(extent).ok()) {
      other.copy.reset();
    }
  } else if (!whole && !other.missing && absl::IsDataLoss(other.status)) {
    MNEMON_RETURN_IF_ERROR(SetCopyAside(places[1 - primary], facts.aside[1 - primary]));
  }
  opened.copies[primary] = std::move(found[primary].copy);
  opened.copies[1 - primary] = std::move(other.copy);
  return opened;
}

}  // namespace mnemon
