// SPDX-License-Identifier: MIT
#include "train/fit.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/kernels/thread_pool.h"
#include "model/sequence/runtime.h"
#include "train/learner.h"
#include "train/metrics.h"
#include "train/plan.h"
#include "train/progress.h"
#include "train/resume_check.h"
#include "train/run_directory.h"
#include "train/sample_text.h"
#include "train/schedule.h"
#include "train/stop_signal.h"
#include "train/task.h"
#include "train/training_state.h"
#include "train/worker_pool.h"

namespace mnemon {
namespace {

class Run {
 public:
  Run(const FitOptions& options, const Task& task, WorkerPool& pool,
      RunDirectory directory)
      : options_(options),
        config_(options.config),
        task_(task),
        pool_(pool),
        directory_(std::move(directory)),
        clock_(options.clock) {}

  absl::Status Start(std::optional<TrainingState> saved);
  absl::Status Train();

 private:
  absl::Status Report(const UpdateResult& update, double lr, bool validate);
  // Validates, samples, and returns whether this is the best so far.
  absl::StatusOr<bool> Validate();
  // Of the weights at the end of the run, where the task has a test part.
  absl::Status Test();
  absl::Status Finish();
  absl::Status Save();
  absl::Status Diverged(const absl::Status& status) const;
  double Seconds() const {
    const std::chrono::duration<double> passed = clock_.Now() - start_;
    return seconds_before_ + passed.count();
  }
  Passed Behind() const { return {.updates = state_.steps, .seconds = Seconds()}; }
  Progress MakeProgress() const;

  const FitOptions& options_;
  TrainConfig config_;
  const Task& task_;
  WorkerPool& pool_;
  RunDirectory directory_;
  const Clock& clock_;
  const std::chrono::steady_clock::time_point start_ = clock_.Now();
  double seconds_before_ = 0;  // of the run before it was resumed
  std::optional<Plan> plan_;
  bool over_ = false;               // the plan is fulfilled
  Passed validated_;                // when the latest validation was over
  std::optional<double> accuracy_;  // of the latest validation
  TrainingState state_;
  std::unique_ptr<Learner> learner_;
  std::optional<MetricsFile> metrics_;
  std::optional<Progress> progress_;
};

absl::Status Run::Start(std::optional<TrainingState> saved) {
  TrainConfig config = config_;
  // A run that goes on has its own weights; what it began with may be gone.
  if (saved) config.from.clear();
  MNEMON_ASSIGN_OR_RETURN(learner_,
                          Learner::Create(config, task_, pool_, options_.device));
  state_.text_sha256 = task_.sha256();
  if (saved) {
    state_ = *saved;
    MNEMON_RETURN_IF_ERROR(directory_.Prune(state_.best_step, config_.keep));
    seconds_before_ = saved->seconds;
    MNEMON_RETURN_IF_ERROR(
        learner_->Load(directory_.checkpoint_path(state_.steps), state_.steps,
                       {.pass = state_.next_pass, .batch = state_.next_batch}));
  }
  plan_.emplace(config_, learner_->updates_per_epoch());
  state_.planned = plan_->updates();
  validated_ = {.updates = state_.steps, .seconds = seconds_before_};
  over_ = saved && plan_->Position(validated_).part >= 1;
  MNEMON_ASSIGN_OR_RETURN(
      MetricsFile metrics,
      MetricsFile::Open(directory_.metrics_path(), state_.metrics_bytes));
  metrics_.emplace(std::move(metrics));
  progress_.emplace(MakeProgress());
  progress_->Say(
      absl::StrFormat("%s: %d parameters; %s; %d updates per epoch; %d threads",
                      config_.model.architecture, learner_->parameter_count(),
                      task_.Describe(), learner_->updates_per_epoch(), pool_.size()));
  const std::string numerics = learner_->numerics();
  if (saved) {
    progress_->Say(StrCat("resumed at ", progress_->At(state_.steps)));
    if (state_.numerics != numerics) {
      progress_->Say(StrCat("note: updates were computed with ", state_.numerics,
                            " and are now with ", numerics,
                            ", which need not give the same bits"));
    }
  } else if (options_.resume) {
    progress_->Say(
        StrCat("no checkpoint in ", directory_.path(), " yet: starting anew"));
  }
  state_.numerics = numerics;
  return absl::OkStatus();
}

Progress Run::MakeProgress() const {
  if (plan_->seconds() == 0) return {clock_, state_.steps, plan_->updates()};
  const auto before = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds_before_));
  const TimeSpan span = {.begin = start_ - before,
                         .length = std::chrono::seconds(plan_->seconds())};
  return {clock_, state_.steps, span};
}

absl::StatusOr<bool> Run::Validate() {
  MNEMON_ASSIGN_OR_RETURN(const Evaluation validation, learner_->Validate());
  state_.validation = validation.loss();
  // Of a text, the loss is enough.
  if (task_.tokenizer() == nullptr) accuracy_ = validation.accuracy();
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
                    .gradient_norm = update.gradient_norm};
  if (validated) {
    row.validation = state_.validation;
    row.accuracy = accuracy_;
  }
  state_.loss_sum = 0;
  state_.loss_count = 0;
  MNEMON_RETURN_IF_ERROR(metrics_->Append(row));
  progress_->Report(row, state_.validation);
  if (validated && config_.sample.tokens > 0) {
    MNEMON_ASSIGN_OR_RETURN(std::string sample, learner_->Sample());
    if (!sample.empty()) progress_->Say(ShowSample(sample));
  }
  return absl::OkStatus();
}

absl::Status Run::Test() {
  MNEMON_ASSIGN_OR_RETURN(const std::optional<Evaluation> test, learner_->Test());
  if (test) {
    progress_->Say(absl::StrFormat(
        "test: loss %.4f  accuracy %.4f  (%d of %d positions)", test->loss(),
        test->accuracy(), test->correct, test->positions));
  }
  return absl::OkStatus();
}

absl::Status Run::Finish() {
  progress_->Say(absl::StrFormat(
      "done: %d updates in %.1f s; best validation %.4f at update %d: %s/best",
      state_.steps, Seconds(), state_.best_validation, state_.best_step,
      directory_.path()));
  return Test();
}

absl::Status Run::Save() {
  MNEMON_RETURN_IF_ERROR(metrics_->Sync());
  state_.metrics_bytes = metrics_->bytes();
  state_.next_pass = learner_->cursor().pass;
  state_.next_batch = learner_->cursor().batch;
  state_.seconds = Seconds();
  CheckpointContent content;
  MNEMON_RETURN_IF_ERROR(learner_->Save(content));
  content["training/state.json"] = FormatTrainingState(state_);
  content["training/config.toml"] = FormatTrainConfig(config_, /*comments=*/false);
  return directory_.Save(state_.steps, content, state_.best_step, config_.keep);
}

absl::Status Run::Diverged(const absl::Status& status) const {
  if (!absl::IsOutOfRange(status)) return status;
  const std::string good = directory_.last()
                               ? "the last good checkpoint is " +
                                     directory_.checkpoint_path(*directory_.last())
                               : std::string("there is no checkpoint yet");
  return absl::OutOfRangeError(
      StrCat("training diverged at update ", state_.steps + 1, ": ",
             std::string(status.message()), "; ", good,
             "; try a smaller optimiser.lr, a longer schedule.warmup or a smaller ",
             "optimiser.clip"));
}

absl::Status Run::Train() {
  // A signal ends a process that has nothing to save.
  if (over_) return Finish();
  const StopSignal stop;
  while (!over_ && !stop.requested()) {
    const double lr = LearningRate(config_.schedule, config_.model.d_model,
                                   plan_->Position(Behind()));
    absl::StatusOr<UpdateResult> update = learner_->Update(lr);
    if (!update.ok()) return Diverged(update.status());
    ++state_.steps;
    state_.loss_sum += update->loss;
    ++state_.loss_count;
    progress_->Advance(update->tokens);
    const Due due = plan_->DueBehind(Behind(), validated_);
    over_ = due.last;
    const bool report = due.validation || state_.steps % config_.log_every == 0;
    bool save = due.checkpoint;
    if (due.validation) {
      MNEMON_ASSIGN_OR_RETURN(bool best, Validate());
      save = save || best;
    }
    if (report) MNEMON_RETURN_IF_ERROR(Report(*update, lr, due.validation));
    if (save) MNEMON_RETURN_IF_ERROR(Save());
    if (due.validation) validated_ = Behind();
    progress_->Resume();
  }
  if (over_) return Finish();
  if (state_.steps > 0 && directory_.last() != state_.steps) {
    MNEMON_RETURN_IF_ERROR(Save());
  }
  progress_->Say(StrCat("stopped at ", progress_->At(state_.steps),
                        "; continue with\n  ", options_.resume_command));
  return absl::OkStatus();
}

// The saved state of the run in `directory`, held against what is to be run now.
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
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Task> task, LoadTask(options.config));
  MNEMON_ASSIGN_OR_RETURN(RunDirectory directory,
                          RunDirectory::Open(options.config.out, options.resume));
  MNEMON_ASSIGN_OR_RETURN(std::optional<TrainingState> saved,
                          ReadSaved(directory, options, *task));
  const int threads = options.threads > 0 ? options.threads : UsableCores();
  // Each thread runs whole operations.
  InitTensorRuntime(1);
  WorkerPool pool(threads);
  options.config.model.vocab = task->vocab();
  Run run(options, *task, pool, std::move(directory));
  MNEMON_RETURN_IF_ERROR(run.Start(std::move(saved)));
  return run.Train();
}

}  // namespace mnemon
