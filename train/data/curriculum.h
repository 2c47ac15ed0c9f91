// SPDX-License-Identifier: MIT
// The order of a run's batches: the stages of data.curriculum, short sequences first,
// then sequences of data.seq_len until the end of the run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/config.h"
#include "train/data/loader.h"
#include "train/data/task.h"

namespace mnemon {

// Updates with sequences of `length` tokens.
struct CurriculumStage {
  int64_t length = 0;
  int64_t updates = 0;

  bool operator==(const CurriculumStage&) const = default;
};

// Parses "4:100 8:200": 100 updates with 4 tokens, then 200 with 8. An empty text has
// no stages. INVALID_ARGUMENT says what a stage looks like.
absl::StatusOr<std::vector<CurriculumStage>> ParseCurriculum(const std::string& text);

// The next batch: the stage, from 0, and the position in its loader. The last stage is
// that of data.seq_len.
struct CurriculumCursor {
  int64_t stage = 0;
  LoaderCursor within;
};

// The training batches of one run. Owned by one thread.
class Curriculum {
 public:
  // `task` must outlive it. INVALID_ARGUMENT as from Task::MakeLoader.
  static absl::StatusOr<Curriculum> Create(const Task& task, const DataOptions& options,
                                           uint64_t seed);

  // As in Loader.
  absl::StatusOr<Batch> Next();
  CurriculumCursor cursor() const;
  // Whether the cursor lies within the data.
  bool Has(const CurriculumCursor& cursor) const;
  // REQUIRES: Has(cursor).
  void Seek(const CurriculumCursor& cursor);

  // Batches in a pass of the last stage.
  int64_t batches_per_pass() const { return loaders_.back()->batches_per_pass(); }
  // Batches before the last stage.
  int64_t batches_before() const;

 private:
  Curriculum() = default;
  bool Over(int64_t stage) const;

  std::vector<int64_t> updates_;                  // of every stage but the last
  std::vector<std::unique_ptr<Loader>> loaders_;  // of every stage
  int64_t stage_ = 0;
};

}  // namespace mnemon
