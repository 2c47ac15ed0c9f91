// SPDX-License-Identifier: MIT
#include "train/fit/fit.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/thread_pool.h"
#include "model/sequence/runtime.h"
#include "train/data/task.h"
#include "train/fit/learner.h"
#include "train/fit/plan.h"
#include "train/fit/process_check.h"
#include "train/fit/resume_check.h"
#include "train/fit/sample_text.h"
#include "train/fit/schedule.h"
#include "train/fit/stop_signal.h"
#include "train/parallel/process_group.h"
#include "train/parallel/worker_pool.h"
#include "train/run/progress.h"
#include "train/run/run_directory.h"
#include "train/run/run_log.h"
#include "train/run/training_state.h"

namespace mnemon {
namespace {

class Run {
 public:
  // `directory`: in the first process, else null.
  Run(const FitOptions& options, const Task& task, WorkerPool& pool,
      ProcessGroup& group, std::optional<RunDirectory> directory)
      : options_(options),
        config_(options.config),
        task_(task),
        pool_(pool),
        group_(group),
        directory_(std::move(directory)),
        clock_(options.clock) {}

  absl::Status Start(std::optional<TrainingState> saved);
  absl::Status Train();

 private:
  absl::Status Report(const UpdateResult& update, double lr, bool validate);
  // Validates, samples, and returns whether this is the best so far.
  absl::StatusOr<bool> Validate();
  // Evaluates the final weights on the test part, if the task has one.
  absl::Status Test();
  absl::Status Finish();
  absl::Status Save();
  absl::Status Loop();
  // Saves a checkpoint if that is complete without the lost process. Returns `status`.
  absl::Status Lost(const absl::Status& status);
  // The same for people.
  absl::Status Explained(const absl::Status& status) const;
  // Makes the processes agree on the time and on whether any is asked to stop.
  absl::Status Agree(bool stop);
  // Copies all that process 0 has read to the others.
  absl::Status Distribute();
  void Say(const std::string& text) {
    if (progress_) progress_->Say(text);
  }
  double Seconds() const {
    const std::chrono::duration<double> passed = clock_.Now() - start_;
    return seconds_before_ + passed.count();
  }
  Passed SoFar() const { return {.updates = state_.steps, .seconds = now_}; }
  std::unique_ptr<Progress> MakeProgress() const;

  const FitOptions& options_;
  TrainConfig config_;
  const Task& task_;
  WorkerPool& pool_;
  ProcessGroup& group_;
  std::optional<RunDirectory> directory_;
  const Clock& clock_;
  const std::chrono::steady_clock::time_point start_ = clock_.Now();
  double seconds_before_ = 0;  // of the run before this resumption
  std::optional<Plan> plan_;
  double now_ = 0;                  // the seconds that all processes agree on
  bool stop_ = false;               // some process is asked to
  bool over_ = false;               // the plan is fulfilled
  int64_t saved_ = 0;               // update of the last checkpoint
  Passed validated_;                // when the latest validation was over
  std::optional<double> accuracy_;  // of the latest validation
  TrainingState state_;
  std::unique_ptr<Learner> learner_;
  std::optional<RunLog> log_;           // of the first process
  std::unique_ptr<Progress> progress_;  // likewise
};

absl::Status Run::Start(std::optional<TrainingState> saved) {
  TrainConfig config = config_;
  // A resumed run has its own weights; the checkpoint that it began with may be gone.
  // The first process sends its weights to the others.
  if (saved || !group_.first()) config.from.clear();
  MNEMON_ASSIGN_OR_RETURN(
      learner_, Learner::Create(config, task_, pool_, group_, options_.device));
  state_.text_sha256 = task_.sha256();
  if (saved) {
    state_ = *saved;
    MNEMON_RETURN_IF_ERROR(directory_->Prune(state_.best_step, config_.keep));
    MNEMON_RETURN_IF_ERROR(learner_->Load(
        directory_->checkpoint_path(state_.steps), state_.steps,
        {.stage = state_.next_stage,
         .within = {.pass = state_.next_pass, .batch = state_.next_batch}}));
  }
  MNEMON_RETURN_IF_ERROR(Distribute());
  seconds_before_ = now_ = state_.seconds;
  plan_.emplace(config_, learner_->updates_before_epochs(),
                learner_->updates_per_epoch());
  state_.planned = plan_->updates();
  validated_ = SoFar();
  saved_ = state_.steps;
  over_ = state_.steps > 0 && plan_->Position(validated_).part >= 1;
  const std::string before = std::exchange(state_.numerics, learner_->numerics());
  if (!group_.first()) return absl::OkStatus();
  MNEMON_ASSIGN_OR_RETURN(
      RunLog log, RunLog::Open(directory_->path(), state_.metrics_bytes, state_.steps));
  log_.emplace(std::move(log));
  progress_ = MakeProgress();
  const std::string processes =
      group_.size() == 1 ? "" : StrCat(group_.size(), " processes of ");
  Say(absl::StrFormat("%s: %d parameters; %s; %d updates per epoch; %s%d threads",
                      config_.model.architecture, learner_->parameter_count(),
                      task_.Describe(), learner_->updates_per_epoch(), processes,
                      pool_.size()));
  if (saved) {
    Say(StrCat("resumed at ", progress_->At(state_.steps)));
    if (before != state_.numerics) {
      Say(StrCat("note: updates were computed with ", before, " and are now with ",
                 state_.numerics, ", which need not give the same bits"));
    }
  } else if (options_.resume) {
    Say(StrCat("no checkpoint in ", directory_->path(), " yet: starting anew"));
  }
  return absl::OkStatus();
}

absl::Status Run::Distribute() {
  MNEMON_RETURN_IF_ERROR(learner_->Distribute());
  std::string state = FormatTrainingState(state_);
  MNEMON_RETURN_IF_ERROR(group_.BroadcastBytes(state));
  MNEMON_ASSIGN_OR_RETURN(state_, ParseTrainingState(state, "the state of process 0"));
  return absl::OkStatus();
}

absl::Status Run::Agree(bool stop) {
  at::Tensor own = at::empty({2}, at::kDouble);
  own.data_ptr<double>()[0] = Seconds();
  own.data_ptr<double>()[1] = stop ? 1 : 0;
  at::Tensor all = at::empty({group_.size(), 2}, at::kDouble);
  MNEMON_RETURN_IF_ERROR(group_.AllGather(own, all));
  const double* const values = all.data_ptr<double>();
  now_ = values[0];
  for (int p = 0; p < group_.size(); ++p) stop_ |= values[2 * p + 1] != 0;
  return absl::OkStatus();
}

std::unique_ptr<Progress> Run::MakeProgress() const {
  if (plan_->seconds() == 0) {
    return std::make_unique<Progress>(clock_, state_.steps, plan_->updates());
  }
  const auto before = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds_before_));
  const TimeSpan span = {.begin = start_ - before,
                         .length = std::chrono::seconds(plan_->seconds())};
  return std::make_unique<Progress>(clock_, state_.steps, span);
}

absl::StatusOr<bool> Run::Validate() {
  MNEMON_ASSIGN_OR_RETURN(const Evaluation validation, learner_->Validate());
  state_.validation = validation.loss();
  // The loss says enough about a text.
  if (config_.data.task != TaskKind::kText) accuracy_ = validation.accuracy();
  const bool best =
      state_.best_validation < 0 || state_.validation < state_.best_validation;
  if (best) {
    state_.best_validation = state_.validation;
    state_.best_step = state_.steps;
  }
  return best;
}

absl::Status Run::Report(const UpdateResult& update, double lr, bool validated) {
  MetricsRow row = {.step = state_.steps,
                    .loss = state_.loss_sum / static_cast<double>(state_.loss_count),
                    .learning_rate = lr,
                    .gradient_norm = update.gradient_norm,
                    .tokens = state_.tokens};
  if (validated) {
    row.validation = state_.validation;
    row.accuracy = accuracy_;
  }
  state_.loss_sum = 0;
  state_.loss_count = 0;
  if (!group_.first()) return absl::OkStatus();
  row.seconds = Seconds();
  row.tokens_per_second = progress_->TokensPerSecond();
  MNEMON_RETURN_IF_ERROR(log_->Append(row));
  progress_->Report(row, state_.validation);
  if (validated && config_.sample.tokens > 0) {
    MNEMON_ASSIGN_OR_RETURN(std::string sample, learner_->Sample());
    if (!sample.empty()) {
      Say(ShowSample(sample));
      MNEMON_RETURN_IF_ERROR(
          log_->Append(SampleRow{.step = state_.steps, .text = std::move(sample)}));
    }
  }
  return absl::OkStatus();
}

absl::Status Run::Test() {
  MNEMON_ASSIGN_OR_RETURN(const std::optional<Evaluation> test, learner_->Test());
  if (test) {
    Say(absl::StrFormat("test: loss %.4f  accuracy %.4f  (%d of %d positions)",
                        test->loss(), test->accuracy(), test->correct,
                        test->positions));
  }
  return absl::OkStatus();
}

absl::Status Run::Finish() {
  if (progress_) progress_->Leave();
  Say(absl::StrFormat(
      "done: %d updates in %.1f s; best validation %.4f at update %d: %s/best",
      state_.steps, Seconds(), state_.best_validation, state_.best_step, config_.out));
  return Test();
}

absl::Status Run::Save() {
  CheckpointContent content;
  MNEMON_RETURN_IF_ERROR(learner_->Save(content));
  if (!group_.first()) return absl::OkStatus();
  MNEMON_RETURN_IF_ERROR(log_->Sync());
  state_.metrics_bytes = log_->metrics_bytes();
  const CurriculumCursor cursor = learner_->cursor();
  state_.next_stage = cursor.stage;
  state_.next_pass = cursor.within.pass;
  state_.next_batch = cursor.within.batch;
  state_.seconds = Seconds();
  content["training/state.json"] = FormatTrainingState(state_);
  content["training/config.toml"] = FormatTrainConfig(config_, /*comments=*/false);
  return directory_->Save(state_.steps, content, state_.best_step, config_.keep);
}

absl::Status Run::Lost(const absl::Status& status) {
  // The carry of other processes is lost with them; if there is none, nothing is lost.
  const bool whole = config_.data.loader == LoaderKind::kShuffled;
  if (!absl::IsUnavailable(status) || !directory_ || !whole || saved_ == state_.steps) {
    return status;
  }
  const absl::Status saved = Save();
  return saved.ok() ? status
                    : absl::UnavailableError(
                          StrCat(std::string(status.message()),
                                 "; saving failed: ", std::string(saved.message())));
}

absl::Status Run::Explained(const absl::Status& status) const {
  const bool diverged = absl::IsOutOfRange(status);
  if (!diverged && !absl::IsUnavailable(status)) return status;
  std::string last = "the first process knows the last good checkpoint";
  if (directory_) {
    last = directory_->last() ? "the last good checkpoint is " +
                                    directory_->checkpoint_path(*directory_->last())
                              : "there is no checkpoint yet";
  }
  return absl::Status(
      status.code(),
      StrCat(diverged ? StrCat("training diverged at update ", state_.steps + 1)
                      : StrCat("training ended after update ", state_.steps),
             ": ", std::string(status.message()), "; ", last,
             diverged ? "; try a smaller optimiser.lr, a longer schedule.warmup or a "
                        "smaller optimiser.clip"
                      : "; continue with --resume"));
}

absl::Status Run::Train() {
  const absl::Status status = Loop();
  return status.ok() ? status : Explained(status);
}

absl::Status Run::Loop() {
  // A process that has nothing to save keeps the default action of the signal.
  if (over_) return Finish();
  const StopSignal stop;
  const bool by_time = plan_->seconds() > 0;
  while (!over_ && !stop_) {
    if (by_time) {
      if (absl::Status agreed = Agree(false); !agreed.ok()) return Lost(agreed);
    }
    const double lr =
        LearningRate(config_.schedule, config_.model.d_model, plan_->Position(SoFar()));
    absl::StatusOr<UpdateResult> update = learner_->Update(lr);
    if (!update.ok()) return Lost(update.status());
    ++state_.steps;
    if (state_.tokens) *state_.tokens += update->tokens;
    state_.loss_sum += update->loss;
    ++state_.loss_count;
    if (progress_) {
      progress_->Advance({.tokens = update->tokens, .loss = update->loss});
    }
    const absl::Status agreed = Agree(stop.requested());
    const Due due = plan_->DueAfter(SoFar(), validated_);
    // Validation needs all processes; on resuming there would be none for this update.
    if (!agreed.ok() && due.validation) return agreed;
    over_ = due.last;
    const bool report = due.validation || state_.steps % config_.log_every == 0;
    bool save = due.checkpoint;
    if (due.validation) {
      MNEMON_ASSIGN_OR_RETURN(bool best, Validate());
      save = save || best;
    }
    if (report) MNEMON_RETURN_IF_ERROR(Report(*update, lr, due.validation));
    if (!agreed.ok()) return Lost(agreed);
    if (save) {
      MNEMON_RETURN_IF_ERROR(Save());
      saved_ = state_.steps;
    }
    if (by_time) {
      if (absl::Status timed = Agree(false); !timed.ok()) return Lost(timed);
    }
    if (due.validation) validated_ = SoFar();
    if (progress_) progress_->Resume();
  }
  if (over_) return Finish();
  if (saved_ != state_.steps) MNEMON_RETURN_IF_ERROR(Save());
  if (progress_) progress_->Leave();
  Say(StrCat("stopped at ", progress_ ? progress_->At(state_.steps) : "",
             "; continue with\n  ", options_.resume_command));
  return absl::OkStatus();
}

// Reads the saved state of the run in `directory` and compares it with this run.
absl::StatusOr<std::optional<TrainingState>> ReadSaved(const RunDirectory& directory,
                                                       const FitOptions& options,
                                                       const Task& task) {
  if (!directory.last()) return std::nullopt;
  const std::string dir = directory.checkpoint_path(*directory.last());
  MNEMON_RETURN_IF_ERROR(RequireFp32(dir));
  MNEMON_ASSIGN_OR_RETURN(std::string json, ReadTrainingFile(dir, "state.json"));
  MNEMON_ASSIGN_OR_RETURN(TrainingState state,
                          ParseTrainingState(json, dir + "/training/state.json"));
  MNEMON_ASSIGN_OR_RETURN(std::string toml, ReadTrainingFile(dir, "config.toml"));
  MNEMON_ASSIGN_OR_RETURN(TrainConfig before,
                          ParseTrainConfig(toml, dir + "/training/config.toml", {}));
  MNEMON_RETURN_IF_ERROR(CheckSameRun(before, options.config, state, task.sha256()));
  return state;
}

}  // namespace

absl::Status Fit(const FitOptions& given) {
  FitOptions options = given;
  if (!options.device.is_cpu()) options.threads = 1;
  MNEMON_RETURN_IF_ERROR(
      CheckProcesses(options.launch, options.config, options.device.is_cpu()));
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Task> task, LoadTask(options.config));
  MNEMON_ASSIGN_OR_RETURN(
      const std::unique_ptr<ProcessGroup> group,
      JoinProcessGroup(options.launch, options.device.is_cuda(), options.peer_timeout));
  MNEMON_RETURN_IF_ERROR(CheckSameEverywhere(*group, options.config, task->sha256()));
  std::optional<RunDirectory> directory;
  std::optional<TrainingState> saved;
  if (group->first()) {
    MNEMON_ASSIGN_OR_RETURN(directory,
                            RunDirectory::Open(options.config.out, options.resume));
    MNEMON_ASSIGN_OR_RETURN(saved, ReadSaved(*directory, options, *task));
  }
  const int threads =
      options.threads > 0
          ? options.threads
          : std::max(1, UsableCores() / std::max(1, options.launch.local_size));
  // Each thread runs whole operations.
  InitTensorRuntime(1);
  WorkerPool pool(threads);
  options.config.model.vocab = task->vocab();
  Run run(options, *task, pool, *group, std::move(directory));
  MNEMON_RETURN_IF_ERROR(run.Start(std::move(saved)));
  return run.Train();
}

}  // namespace mnemon
