// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/file_kind.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/checkpoint.h"
#include "model/sequence/runtime.h"
#include "model/state/state.h"
#include "train/commands/commands.h"
#include "train/commands/compute_flags.h"
#include "train/commands/model_form.h"
#include "train/commands/row_feed.h"
#include "train/commands/text_evaluation.h"
#include "train/commands/unknown_characters.h"
#include "train/data/config.h"
#include "train/data/id_tensor.h"
#include "train/data/task.h"
#include "train/data/text_task.h"
#include "train/run/progress.h"

namespace mnemon {
namespace {

// Tokens per window of a model that came without a record of its training.
constexpr int64_t kDefaultWindow = 128;
// Sessions side by side in step form.
constexpr int64_t kSessions = 16;

struct EvalFlags {
  std::string checkpoint;
  std::string text;
  std::string form = "sequence";
  int64_t window = 0;  // 0 = data.seq_len of the training, or kDefaultWindow
  std::string unknown_characters;
  ComputeFlags compute;
};

// How the checkpoint was trained; nullopt when it came from elsewhere.
absl::StatusOr<std::optional<TrainConfig>> ReadTraining(const std::string& checkpoint) {
  const absl::StatusOr<std::string> toml = ReadTrainingFile(checkpoint, "config.toml");
  if (absl::IsNotFound(toml.status())) return std::nullopt;
  MNEMON_RETURN_IF_ERROR(toml.status());
  MNEMON_ASSIGN_OR_RETURN(
      TrainConfig config,
      ParseTrainConfig(*toml, checkpoint + "/training/config.toml", {}));
  return config;
}

// The longest window that the positions of the model allow.
int64_t LongestWindow(const ModelInForm& loaded) {
  const Attention* attention = FirstBlock<Attention>(loaded.description);
  if (attention != nullptr && attention->whole_segments) {
    return std::max<int64_t>(1, attention->relative()->farthest() - *attention->window);
  }
  const StateSpec& spec =
      loaded.model != nullptr ? loaded.model->carry_spec() : loaded.decoder->spec();
  return spec.max_positions();
}

absl::StatusOr<int64_t> WindowLength(const EvalFlags& flags,
                                     const ModelInForm& loaded) {
  const int64_t longest = LongestWindow(loaded);
  if (flags.window > longest) {
    return UsageError(StrCat("--window ", flags.window, " is beyond the ", longest,
                             " tokens that the model's positions allow"));
  }
  if (flags.window > 0) return flags.window;
  MNEMON_ASSIGN_OR_RETURN(const std::optional<TrainConfig> training,
                          ReadTraining(flags.checkpoint));
  return std::min(longest, training ? training->data.seq_len : kDefaultWindow);
}

// A live line on a terminal, and elsewhere a line now and then.
class EvalProgress {
 public:
  explicit EvalProgress(int64_t planned)
      : planned_(planned), bar_(clock_, 0, std::max<int64_t>(1, planned)) {}

  void Advance(int64_t positions) {
    constexpr std::chrono::seconds kPause(10);
    done_ += positions;
    bar_.Advance({.tokens = positions, .updates = positions});
    if (bar_.live() || clock_.Now() - said_ < kPause) return;
    said_ = clock_.Now();
    bar_.Say(StrCat(done_, " of ", planned_, " positions"));
  }
  // Prints the result below all that was shown.
  void Say(const std::string& text) {
    bar_.Leave();
    bar_.Say(text);
  }

 private:
  const Clock& clock_ = Clock::Real();
  const int64_t planned_;
  Progress bar_;
  int64_t done_ = 0;
  std::chrono::steady_clock::time_point said_ = clock_.Now();
};

// The number of threads that share an operation when windows are computed one at a
// time. In small operations threads would mostly wait for each other.
int OperationThreads(int64_t parameters, int64_t window, int threads) {
  constexpr int64_t kWorthSplitting = int64_t{1} << 30;  // multiplications per window
  return parameters * window < kWorthSplitting ? 1 : threads;
}

// Bytes that begin a character of UTF-8.
int64_t Characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (byte & 0xC0) != 0x80; });
}

// The treatment of unknown characters, if there are any: "; unknown characters left
// out: 3".
std::string UnknownFound(const Tokenizer& tokenizer, std::string_view text,
                         UnknownCharacters unknown) {
  const UnknownCharacters own = tokenizer.unknown_characters();
  if (unknown == UnknownCharacters::kAsModel) unknown = own;
  if (own == UnknownCharacters::kAsModel || unknown == UnknownCharacters::kRefuse) {
    return "";
  }
  const auto known = tokenizer.EncodeWith(text, UnknownCharacters::kSkip);
  const int64_t count = Characters(text) - static_cast<int64_t>(known->size());
  if (count == 0) return "";
  return StrCat(
      "; unknown characters ",
      unknown == UnknownCharacters::kSkip ? "left out: " : "replaced: ", count);
}

absl::Status EvalText(const EvalFlags& flags, ModelInForm loaded,
                      const Compute& compute) {
  if (loaded.tokenizer == nullptr) {
    return absl::FailedPreconditionError(
        StrCat(flags.checkpoint, " has no tokenizer.json, so it reads no text"));
  }
  MNEMON_ASSIGN_OR_RETURN(const int64_t window, WindowLength(flags, loaded));
  MNEMON_ASSIGN_OR_RETURN(const std::string text, ReadText(flags.text));
  const UnknownCharacters unknown = UnknownCharactersOf(flags.unknown_characters);
  const auto tokens = loaded.tokenizer->EncodeWith(text, unknown);
  if (!tokens.ok()) {
    if (const auto kind = FindFileKind(text)) return WrongKind(flags.text, *kind);
    return Annotated(tokens.status(), Quoted(flags.text));
  }
  // A token of a tokenizer of characters is one of them.
  const bool of_characters =
      loaded.tokenizer->unknown_characters() != UnknownCharacters::kAsModel;
  const int64_t seen =
      of_characters ? static_cast<int64_t>(tokens->size()) : Characters(text);

  // The carry holds inputs: windows are segments of one text.
  const Attention* attention = FirstBlock<Attention>(loaded.description);
  const bool kept =
      attention != nullptr && attention->carries == Attention::Carries::kInputs;
  const int threads = ThreadsOf(flags.compute);
  const bool side_by_side = !kept && compute.on_host();
  WorkerPool pool(side_by_side && flags.form == "sequence" ? threads : 1);
  InitTensorRuntime(
      side_by_side ? 1 : OperationThreads(loaded.parameters, window, threads));
  std::unique_ptr<RowFeed> feed;
  if (loaded.model != nullptr) {
    feed = MakeSplitFeed(*loaded.model, pool);
  } else {
    MNEMON_ASSIGN_OR_RETURN(
        feed, MakeStepFeed(std::move(loaded.decoder), kept ? 1 : kSessions));
  }
  const auto positions = static_cast<int64_t>(tokens->size()) - 1;
  EvalProgress progress(positions);
  const auto found =
      EvaluateText(*tokens, window, kept ? WindowMemory::kKept : WindowMemory::kFresh,
                   *feed, [&](int64_t n) { progress.Advance(n); });
  if (!found.ok()) return Annotated(found.status(), Quoted(flags.text));
  const int64_t characters =
      seen - Characters(loaded.tokenizer->TokenBytes(tokens->front()));
  const double nats =
      found->nats / static_cast<double>(std::max<int64_t>(1, characters));
  progress.Say(absl::StrFormat(
      "%.4f nats per character (%.4f bits), accuracy %.4f\n"
      "%d characters, %d tokens, all but the first predicted; windows of %d tokens, "
      "memory %s; %s form%s",
      nats, nats / std::log(2.0), found->accuracy(), seen, tokens->size(), window,
      kept ? "kept from one to the next" : "fresh in each", flags.form,
      UnknownFound(*loaded.tokenizer, text, unknown)));
  return absl::OkStatus();
}

// The test sequences of the run that made the checkpoint.
absl::Status EvalTask(const EvalFlags& flags, const ModelInForm& loaded) {
  MNEMON_ASSIGN_OR_RETURN(const std::optional<TrainConfig> training,
                          ReadTraining(flags.checkpoint));
  if (!training) {
    return absl::FailedPreconditionError(
        StrCat(flags.checkpoint, " has no training/config.toml, so nothing says what ",
               "to evaluate it on"));
  }
  if (training->model.architecture != loaded.architecture ||
      training->data.classes != loaded.description.vocab) {
    return absl::FailedPreconditionError(
        StrCat(flags.checkpoint, "/training/config.toml describes another model"));
  }
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Task> task, LoadTask(*training));
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<Loader> test,
                          task->MakeLoader(training->data, LoaderUse::kTest,
                                           static_cast<uint64_t>(training->seed)));
  const std::unique_ptr<RowFeed> feed = MakeSequenceFeed(*loaded.model);
  Evaluation sum;
  EvalProgress progress(training->data.test_sequences * training->data.seq_len);
  for (int64_t i = 0; i < test->batches_per_pass(); ++i) {
    MNEMON_ASSIGN_OR_RETURN(const Batch batch, test->Get(0, i));
    MNEMON_RETURN_IF_ERROR(feed->Restart(batch.rows));
    MNEMON_ASSIGN_OR_RETURN(
        const at::Tensor logits,
        feed->Feed(IdTensor(batch.inputs.data(), batch.rows, batch.columns)));
    sum.Add(logits.flatten(0, 1),
            IdTensor(batch.targets.data(), batch.rows, batch.columns).flatten());
    progress.Advance(batch.rows * batch.columns);
  }
  progress.Say(absl::StrFormat(
      "loss %.4f, accuracy %.4f\n%d test sequences of %d tokens; %d of %d right",
      sum.loss(), sum.accuracy(), training->data.test_sequences, training->data.seq_len,
      sum.correct, sum.positions));
  return absl::OkStatus();
}

absl::Status RunEval(const EvalFlags& flags, const Compute& compute) {
  MNEMON_ASSIGN_OR_RETURN(ModelInForm loaded,
                          LoadInForm(flags.checkpoint, flags.form, compute));
  const std::string& architecture = loaded.architecture;
  if (!loaded.description.whole_sequences) {
    if (!flags.text.empty()) return EvalText(flags, std::move(loaded), compute);
    return UsageError(StrCat("architecture ", architecture,
                             " predicts text: name one with --text FILE"));
  }
  if (flags.text.empty() && flags.form == "sequence" && flags.window == 0) {
    return EvalTask(flags, loaded);
  }
  return UsageError(StrCat("architecture ", architecture,
                           " is evaluated on the test sequences of its training: leave "
                           "out --text, --form and --window"));
}

}  // namespace

void AddEvalCommand(CommandLine& line) {
  auto flags = std::make_shared<EvalFlags>();
  Command command = line.AddCommand(
      "eval", "How well a model predicts a text, or the test part of its task.",
      {"mnemon-train eval --checkpoint run/best --text book.txt",
       "mnemon-train eval --checkpoint run/best --text book.txt --form step",
       "mnemon-train eval --checkpoint runs/reverse/last"},
      [flags] {
        return RunComputing(flags->compute, [&](const Compute& compute) {
          return RunEval(*flags, compute);
        });
      });
  command.Add("--checkpoint", &flags->checkpoint, "Checkpoint directory").Required();
  command
      .Add("--text", &flags->text,
           "File of the text to predict, whole; for an encoder leave it out")
      .Default("none");
  command
      .Add("--form", &flags->form, "sequence (as in training) or step (as in serving)")
      .OneOf({"sequence", "step"});
  command
      .Add("--window", &flags->window,
           "Tokens per window; 0 = data.seq_len of the training, or 128 without one")
      .Between(0, 1 << 24);
  AddUnknownCharactersFlag(command, flags->unknown_characters);
  AddStepComputeFlags(command, flags->compute);
}

}  // namespace mnemon
