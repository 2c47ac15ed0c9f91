// SPDX-License-Identifier: MIT
#include "train/data/curriculum.h"

#include <charconv>
#include <numeric>
#include <sstream>
#include <string_view>

#include "base/check.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

bool ReadCount(std::string_view text, int64_t& count) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() && count >= 1 &&
         count <= int64_t{1} << 40;
}

}  // namespace

absl::StatusOr<std::vector<CurriculumStage>> ParseCurriculum(const std::string& text) {
  std::vector<CurriculumStage> stages;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    CurriculumStage stage;
    const size_t colon = word.find(':');
    if (colon == word.npos ||
        !ReadCount(std::string_view(word).substr(0, colon), stage.length) ||
        !ReadCount(std::string_view(word).substr(colon + 1), stage.updates)) {
      return absl::InvalidArgumentError(
          StrCat("a stage is LENGTH:UPDATES, such as 8:200, not ", Quoted(word)));
    }
    stages.push_back(stage);
  }
  return stages;
}

absl::StatusOr<Curriculum> Curriculum::Create(const Task& task,
                                              const DataOptions& options,
                                              uint64_t seed) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<CurriculumStage> stages,
                          ParseCurriculum(options.curriculum));
  Curriculum curriculum;
  const auto add = [&](int64_t length) -> absl::Status {
    DataOptions stage = options;
    stage.seq_len = length;
    MNEMON_ASSIGN_OR_RETURN(curriculum.loaders_.emplace_back(),
                            task.MakeLoader(stage, LoaderUse::kTraining, seed));
    return absl::OkStatus();
  };
  for (const CurriculumStage& stage : stages) {
    curriculum.updates_.push_back(stage.updates);
    MNEMON_RETURN_IF_ERROR(add(stage.length));
  }
  MNEMON_RETURN_IF_ERROR(add(options.seq_len));
  return curriculum;
}

bool Curriculum::Over(int64_t stage) const {
  if (stage == static_cast<int64_t>(updates_.size())) return false;
  const Loader& loader = *loaders_[stage];
  return loader.cursor().pass * loader.batches_per_pass() + loader.cursor().batch >=
         updates_[stage];
}

absl::StatusOr<Batch> Curriculum::Next() {
  MNEMON_ASSIGN_OR_RETURN(Batch batch, loaders_[stage_]->Next());
  if (Over(stage_)) loaders_[stage_++]->Release();
  return batch;
}

CurriculumCursor Curriculum::cursor() const {
  return {.stage = stage_, .within = loaders_[stage_]->cursor()};
}

bool Curriculum::Has(const CurriculumCursor& cursor) const {
  if (cursor.stage < 0 || cursor.stage >= static_cast<int64_t>(loaders_.size())) {
    return false;
  }
  const int64_t each = loaders_[cursor.stage]->batches_per_pass();
  const auto& [pass, batch] = cursor.within;
  if (pass < 0 || batch < 0 || batch >= each) return false;
  if (cursor.stage + 1 == static_cast<int64_t>(loaders_.size())) return true;
  const int64_t last = updates_[cursor.stage] - 1;
  return batch <= last && pass <= (last - batch) / each;
}

void Curriculum::Seek(const CurriculumCursor& cursor) {
  MNEMON_CHECK(Has(cursor));
  stage_ = cursor.stage;
  loaders_[stage_]->Seek(cursor.within);
  // Later stages start at their beginning, also when a run was moved back.
  for (size_t later = stage_ + 1; later < loaders_.size(); ++later) {
    loaders_[later]->Seek({});
  }
}

int64_t Curriculum::batches_before() const {
  return std::accumulate(updates_.begin(), updates_.end(), int64_t{0});
}

}  // namespace mnemon
