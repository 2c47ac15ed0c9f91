// SPDX-License-Identifier: MIT
// The configuration of a training run. One list of fields (VisitTrainFields) serves
// TOML,
// --set, checks, printing and the comparison on resume. The model's fields are those of
// VisitConfigFields under "model.".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/families/config.h"
#include "model/sequence/model.h"
#include "model/text/tokenizer.h"

namespace mnemon {

enum class TaskKind {
  kText,
  kReverse,
  kDihedral,
  kCopy,
  kRetrieval,
  kCapacity,
  kRecall
};
enum class LoaderKind { kShuffled, kSequential };
enum class OptimiserKind { kSgd, kAdam, kAdamw, kAdamLabml };
enum class ScheduleKind { kConstant, kCosine, kNoam };
enum class Precision { kFp32, kBf16 };
enum class Backward { kFused, kAutograd };

struct DataOptions {
  TaskKind task = TaskKind::kText;
  std::string text;
  // "char", "byte", or a path as in OpenTokenizer.
  std::string tokenizer = "char";
  // Setting of the saved tokenizer, if it is one of characters; kAsModel: as in
  // `tokenizer`.
  UnknownCharacters unknown_characters = UnknownCharacters::kAsModel;
  double validation = 0.1;
  LoaderKind loader = LoaderKind::kShuffled;
  int64_t seq_len = 64;  // T
  std::string curriculum;
  int64_t batch = 32;  // B
  bool jitter = true;
  // More tokens than a text that is read whole can have: such a text is one shard.
  int64_t shuffle_shard = int64_t{1} << 32;
  // Options of the drawn tasks.
  int64_t classes = 10;  // V
  int64_t training_sequences = 50000;
  int64_t validation_sequences = 1000;
  int64_t test_sequences = 10000;
  int64_t test_len = 0;
  double test_tail = 1.0;
  int64_t distance = 0;
};

struct OptimiserOptions {
  OptimiserKind kind = OptimiserKind::kAdamw;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr = 1e-3;
  int64_t warmup = 0;
  double min_ratio = 0.0;
};

struct DurationOptions {
  // Exactly one is not zero.
  int64_t steps = 0;
  int64_t epochs = 0;
  int64_t seconds = 0;
};

struct SampleOptions {
  std::string prompt;
  int64_t tokens = 120;
  double temperature = 0.8;
};

struct TrainConfig {
  std::string out;
  ModelConfig model;  // vocab is set from the task
  Initialisation init = Initialisation::kSane;
  DataOptions data;
  OptimiserOptions optimiser;
  double clip = 1.0;
  ScheduleOptions schedule;
  DurationOptions duration;
  Precision precision = Precision::kFp32;
  Backward backward = Backward::kFused;
  int64_t shards = 4;
  int64_t seed = 1;
  std::string from;
  int64_t log_every = 20;
  int64_t validate_every = 0;
  int64_t validation_batches = 0;
  int64_t checkpoint_every = 0;
  int64_t keep = 2;
  SampleOptions sample;
};

// Bounds of a number, both inclusive.
struct Limits {
  double least = 0;
  double most = 0;
};

// Calls visit(key, field, limits, text) for every field but those of `model`, in the
// order of the printed file. Only numbers have limits. The only list of the fields.
template <class Config, class Visitor>
void VisitTrainFields(Config& c, Visitor&& visit) {
  constexpr double kLarge = 1e12;
  const Limits text{}, fraction{0, 1}, positive{1e-300, 1e6}, count{0, kLarge},
      some{1, kLarge}, sequences{1, 1 << 24};
  visit("out", c.out, text, "directory of the run; --out overrides it");
  visit("model.init", c.init, text,
        "sane: each layer drawn on its own; reference: as labml, all layers equal");
  visit("data.task", c.data.task, text,
        "text: the next token of a text; reverse, dihedral, copy, retrieval, capacity, "
        "recall: drawn sequences, see train/configs/tasks");
  visit("data.text", c.data.text, text, "file to train on");
  visit("data.tokenizer", c.data.tokenizer, text,
        "char, byte, or a tokenizer.json, or a model that has one");
  visit("data.unknown_characters", c.data.unknown_characters, text,
        "of the tokenizer that is saved: what becomes of characters that it lacks; "
        "as_model: as data.tokenizer has it, else refuse");
  visit("data.validation", c.data.validation, Limits{0.001, 0.9},
        "fraction of the text, its last part, kept for validation");
  visit("data.loader", c.data.loader, text,
        "shuffled: windows in random order; sequential: parallel streams with memory");
  visit("data.seq_len", c.data.seq_len, Limits{1, 1 << 20}, "T, tokens per window");
  visit("data.curriculum", c.data.curriculum, text,
        "stages before data.seq_len: \"4:100 8:200\" = 100 updates of 4 tokens, 200 of "
        "8");
  visit("data.batch", c.data.batch, Limits{1, 1 << 20}, "B, windows per update");
  visit("data.jitter", c.data.jitter, text, "move each shuffled window by 0..T-1");
  visit("data.shuffle_shard", c.data.shuffle_shard, some,
        "shuffled: tokens that are mixed with each other and held in memory");
  visit("data.classes", c.data.classes, Limits{2, 1 << 24},
        "drawn tasks: kinds of digits; retrieval: keys, and values; recall: facts");
  visit("data.training_sequences", c.data.training_sequences, sequences,
        "drawn tasks: shuffled in every pass; copy: segments, drawn anew");
  visit("data.validation_sequences", c.data.validation_sequences, sequences,
        "drawn tasks: for each validation");
  visit("data.test_sequences", c.data.test_sequences, sequences,
        "drawn tasks: for the end of the run, and eval");
  visit("data.test_len", c.data.test_len, Limits{0, 1 << 20},
        "reverse, dihedral, recall: tokens of a test sequence; 0 = data.seq_len");
  visit("data.test_tail", c.data.test_tail, Limits{0.001, 1},
        "drawn tasks: part of a test sequence, its last, that counts");
  visit("data.distance", c.data.distance, Limits{0, 1 << 20},
        "copy: how many tokens ago the source lies");
  visit("optimiser.name", c.optimiser.kind, text,
        "adam_labml adds eps before the bias correction");
  visit("optimiser.lr", c.schedule.lr, positive, "peak rate; the factor of noam");
  visit("optimiser.beta1", c.optimiser.beta1, Limits{0, 0.999999},
        "adam*: first moment");
  visit("optimiser.beta2", c.optimiser.beta2, Limits{0, 0.999999},
        "adam*: second moment");
  visit("optimiser.eps", c.optimiser.eps, positive, "adam*: keeps the divisor above 0");
  visit("optimiser.weight_decay", c.optimiser.weight_decay, fraction,
        "adamw: decoupled; others: added to the gradient");
  visit("optimiser.momentum", c.optimiser.momentum, fraction, "sgd only");
  visit("optimiser.clip", c.clip, Limits{0, 1e6},
        "limit of the gradient norm; 0 = none");
  visit("schedule.kind", c.schedule.kind, text, "learning rate over the updates");
  visit("schedule.warmup", c.schedule.warmup, count, "updates; noam needs at least 1");
  visit("schedule.min_ratio", c.schedule.min_ratio, fraction,
        "cosine: last rate as a fraction of the peak");
  visit("train.steps", c.duration.steps, count, "updates; or epochs, or seconds");
  visit("train.epochs", c.duration.epochs, count, "passes over the training data");
  visit("train.seconds", c.duration.seconds, count,
        "as many updates as fit; the schedule follows the time");
  visit("train.precision", c.precision, text,
        "bf16: matrix products of updates; weights, memory and loss stay fp32");
  visit("train.backward", c.backward, text,
        "fused: hand-written passes where there are any; autograd: libtorch's");
  visit("train.shards", c.shards, Limits{1, 1024},
        "parts of a batch that threads share out; sums depend on it");
  visit("train.seed", c.seed, count, "of initialisation, data order and dropout");
  visit("train.from", c.from, text,
        "checkpoint whose weights the run starts from; of causal also for feedback");
  visit("train.log_every", c.log_every, some,
        "updates per line and row of metrics.csv");
  visit("train.validate_every", c.validate_every, count,
        "updates; 0 = a tenth of the run");
  visit("train.validation_batches", c.validation_batches, count,
        "batches per validation, spread over its text; 0 = all");
  visit("train.checkpoint_every", c.checkpoint_every, count,
        "updates; 0 = at each validation");
  visit("train.keep", c.keep, some, "newest checkpoints kept, beside the best one");
  visit("sample.prompt", c.sample.prompt, text,
        "start of the text sampled at each validation; empty = that of the validation "
        "text");
  visit("sample.tokens", c.sample.tokens, count, "length of the sample; 0 = none");
  visit("sample.temperature", c.sample.temperature, Limits{0, 100}, "0 = greedy");
}

// Reads the TOML file at `path`, applies `overrides` ("key=value", dotted keys) in
// order and checks the result. An override of train.steps, epochs or seconds replaces
// the other two. One INVALID_ARGUMENT lists all unknown keys (with the nearest known
// name), wrong types, values out of range and contradictions, with file and key.
absl::StatusOr<TrainConfig> LoadTrainConfig(const std::string& path,
                                            const std::vector<std::string>& overrides);

// The same for the text of a file; `name` stands for the path in errors.
absl::StatusOr<TrainConfig> ParseTrainConfig(const std::string& toml,
                                             const std::string& name,
                                             const std::vector<std::string>& overrides);

// Sets one field from text. INVALID_ARGUMENT names the key and the values it takes.
absl::Status SetTrainField(TrainConfig& config, const std::string& key,
                           const std::string& value);

// Checks ranges and contradictions. The text and the model are checked later, when the
// vocabulary is known.
absl::Status ValidateTrainConfig(const TrainConfig& config);

// Every key with its value as text, in the order of the list.
std::vector<std::pair<std::string, std::string>> TrainFields(const TrainConfig& config);

// The complete file: every key with its value and, with `comments`, its meaning.
// ParseTrainConfig reads it back.
std::string FormatTrainConfig(const TrainConfig& config, bool comments);

std::string_view Name(TaskKind value);
std::string_view Name(LoaderKind value);
std::string_view Name(OptimiserKind value);
std::string_view Name(ScheduleKind value);
std::string_view Name(Precision value);
std::string_view Name(Backward value);
std::string_view Name(Initialisation value);

}  // namespace mnemon
