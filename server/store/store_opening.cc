// SPDX-License-Identifier: MIT
#include "server/store/store_opening.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/store/store_status.h"
#include "server/store/write_ahead_log.h"

namespace mnemon {
namespace {

using Extent = StoreCopy::Extent;

struct FoundCopy {
  bool missing = false;
  absl::Status status;              // why it was not opened
  std::unique_ptr<StoreCopy> copy;  // null: missing, or not opened
  int64_t gaps = 0;                 // left out of its logs
};

std::string_view LogIdOf(const StoreCopy::Place& place, const StoreFacts& facts) {
  return facts.format_1 ? std::string_view() : place.id;
}

absl::Status OpenWhole(const StoreCopy::Place& place, const StoreFacts& facts,
                       FoundCopy& found) {
  MNEMON_ASSIGN_OR_RETURN(
      const std::optional<LogStart> start,
      CheckLogs(*place.files, place.path, LogIdOf(place, facts), facts.synced));
  MNEMON_RETURN_IF_ERROR(CutTornTail(*place.files, place.path));
  MNEMON_ASSIGN_OR_RETURN(auto opened,
                          StoreCopy::Open(place, {.format_1 = facts.format_1}));
  if (start && !opened->HasBefore(*start)) {
    // Its lists of tables are older than its logs.
    found.gaps = 1;
    return StoreDamaged("a copy of the session store lacks tables");
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
    found.status = StoreDamaged("a copy of the session store has no file CURRENT");
  } else {
    found.status = OpenWhole(place, facts, found);
  }
  if (!found.status.ok()) {
    LogEvent(LogLevel::kError, "store_copy_not_opened",
             {{"folder", place.path}, {"detail", std::string(found.status.message())}});
  }
  return found;
}

// Opens what can be read of a copy of which nothing but the logs is damaged.
void Salvage(const StoreCopy::Place& place, const StoreFacts& facts, FoundCopy& found) {
  if (found.copy != nullptr || !absl::IsDataLoss(found.status)) return;
  const auto logs = SalvageLogs(*place.files, place.path, LogIdOf(place, facts));
  if (!logs.ok()) return;
  auto opened = StoreCopy::Open(place, {.format_1 = facts.format_1, .salvaged = true});
  if (!opened.ok()) return;
  found.copy = *std::move(opened);
  found.gaps += logs->gaps;
  if (logs->start && !found.copy->HasBefore(*logs->start)) ++found.gaps;
}

// The copy that leads: a whole one, with the highest number; else one that is behind;
// -1: there is neither.
int PrimaryOf(const std::array<FoundCopy, 2>& found, uint64_t synced) {
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

// Moves the files of a copy that is no longer used, but may be read by other means, to
// a folder of its own.
absl::Status SetCopyAside(const StoreCopy::Place& place) {
  std::string aside = place.path + ".damaged";
  for (int n = 2; place.files->FileExists(aside, {}, nullptr).ok(); ++n) {
    aside = StrCat(place.path, ".damaged.", n);
  }
  MNEMON_RETURN_IF_ERROR(
      StoreStatus(place.files->CreateDirIfMissing(aside, {}, nullptr)));
  std::vector<std::string> names;
  MNEMON_RETURN_IF_ERROR(
      StoreStatus(place.files->GetChildren(place.path, {}, &names, nullptr)));
  for (const std::string& name : names) {
    if (name == "." || name == "..") continue;
    MNEMON_RETURN_IF_ERROR(StoreStatus(place.files->RenameFile(
        place.path + "/" + name, aside + "/" + name, {}, nullptr)));
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
    return StoreDamaged("both copies of the session store are gone");
  }

  int primary = PrimaryOf(found, facts.synced);
  const bool whole = primary >= 0 && found[primary].copy->extent() == Extent::kWhole &&
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
    return StoreDamaged(
        "neither copy of the session store can be opened; run the server once with "
        "--repair, on a copy of the directory first");
  }

  FoundCopy& first = found[primary];
  if (first.copy->extent() == Extent::kBehind) {
    // What it lacks may have been acknowledged since, by what rests on it.
    ++first.gaps;
    MNEMON_RETURN_IF_ERROR(first.copy->SetExtent(Extent::kWhole));
  }

  const uint64_t number = first.copy->number();
  OpenedCopies opened;
  for (const int which : {0, 1}) {
    const FoundCopy& one = found[which];
    opened.found[which] =
        one.missing                           ? "missing"
        : !one.status.ok()                    ? std::string(one.status.message())
        : one.copy->extent() == Extent::kPart ? kCopyFilling
        : one.copy->extent() == Extent::kBehind || one.copy->number() < number
            ? kCopyBehind
            : kCopyWhole;
  }
  opened.primary = primary;
  opened.last = std::max(number, facts.synced);
  opened.lost = facts.synced > number ? facts.synced - number : 0;
  opened.gaps = first.gaps;
  if (opened.lost > 0 || opened.gaps > 0) {
    LogEvent(LogLevel::kError, "store_commits_lost",
             {{"commits", static_cast<int64_t>(opened.lost)},
              {"gaps", opened.gaps},
              {"last", static_cast<int64_t>(number)}});
  }
  FoundCopy& other = found[1 - primary];
  if (other.copy != nullptr) {
    opened.last = std::max(opened.last, other.copy->number());
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
    MNEMON_RETURN_IF_ERROR(SetCopyAside(places[1 - primary]));
  }
  opened.copies[primary] = std::move(first.copy);
  opened.copies[1 - primary] = std::move(other.copy);
  return opened;
}

}  // namespace mnemon
