// SPDX-License-Identifier: MIT
#include "server/http/store_readings.h"

#include <chrono>

#include "server/http/reading_family.h"

namespace mnemon {

std::vector<prometheus::MetricFamily> ReadingsOf(const PersistenceStats& now) {
  std::vector<prometheus::MetricFamily> families;
  Readings healthy(
      "mnemon_store_healthy",
      "1 while the store of sessions takes what is to be durable, else 0.");
  healthy.Add({}, now.healthy ? 1 : 0);
  families.push_back(healthy.Take());
  Readings copies("mnemon_store_copies",
                  "Copies of the store that are whole: 2, but 1 while the other one is "
                  "made whole, and 0 while neither takes commits.");
  copies.Add({}, now.store.whole_copies);
  families.push_back(copies.Take());
  Readings lost("mnemon_store_lost_commits",
                "Commits that were synced and that neither copy had at the start.");
  lost.Add({}, static_cast<double>(now.store.lost_commits));
  families.push_back(lost.Take());
  const auto count = [&](const char* name, const char* help, double value) {
    Readings counter(name, help, prometheus::MetricType::Counter);
    counter.Add({}, value);
    families.push_back(counter.Take());
  };
  const JournalStats& journal = now.journal;
  count("mnemon_journal_commits_total", "Commits of journals of sessions to the store.",
        static_cast<double>(journal.commits));
  count("mnemon_journal_syncs_total", "Of the commits, those that waited for the disk.",
        static_cast<double>(journal.syncs));
  count("mnemon_journal_entries_total",
        "Changes of histories that were written to journals.",
        static_cast<double>(journal.entries));
  count("mnemon_journal_tokens_total", "Tokens that were written to journals.",
        static_cast<double>(journal.tokens));
  count(
      "mnemon_journal_bytes_total",
      "Bytes of commits: journals, records and histories of checkpoints, in one copy, "
      "before compression.",
      static_cast<double>(journal.bytes));
  count("mnemon_journal_failures_total", "Commits that the store did not take.",
        static_cast<double>(journal.failures));
  count("mnemon_journal_commit_seconds_total", "Time that commits took.",
        std::chrono::duration<double>(journal.commit_time).count());
  count("mnemon_store_unreadable_total",
        "Places of the store that neither copy could read.",
        static_cast<double>(now.store.unreadable));
  count("mnemon_store_rebuilds_total",
        "Copies of the store that were made whole, filled or made anew.",
        static_cast<double>(now.store.rebuilds));
  count("mnemon_snapshots_total",
        "Snapshots of sessions that were made for the store, without checkpoints.",
        static_cast<double>(now.snapshots));
  count("mnemon_snapshot_bytes_total", "Bytes of these snapshots.",
        static_cast<double>(now.snapshot_bytes));
  count("mnemon_snapshot_failures_total", "Snapshots that could not be made.",
        static_cast<double>(now.snapshot_failures));
  count("mnemon_snapshots_damaged_total",
        "Snapshots and checkpoints in the store that were found damaged.",
        static_cast<double>(now.damaged_snapshots));
  count("mnemon_histories_unloaded_total",
        "Histories that left memory for the store, since memory was short.",
        static_cast<double>(now.unloaded));
  return families;
}

}  // namespace mnemon
