// SPDX-License-Identifier: MIT
#include "train/data/drawn_task.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "model/compute/functions.h"
#include "model/text/tokenizer.h"
#include "train/data/draws.h"
#include "train/data/recall_text.h"

namespace mnemon {
namespace {

constexpr int64_t kStates = 4;  // of the dihedral walk

int64_t Sequences(const DataOptions& options, LoaderUse use) {
  switch (use) {
    case LoaderUse::kTraining:
      return options.training_sequences;
    case LoaderUse::kValidation:
      return options.validation_sequences;
    case LoaderUse::kTest:
      break;
  }
  return options.test_sequences;
}

int64_t Length(const DataOptions& options, LoaderUse use) {
  return use == LoaderUse::kTest && options.test_len > 0 ? options.test_len
                                                         : options.seq_len;
}

struct Sequence {
  std::vector<int64_t> inputs, targets;
};

Sequence Reverse(const DataOptions& options, int64_t length, const Draw& draw) {
  Sequence sequence;
  for (int64_t t = 0; t < length; ++t) {
    sequence.inputs.push_back(draw(options.classes, t));
  }
  sequence.targets.assign(sequence.inputs.rbegin(), sequence.inputs.rend());
  return sequence;
}

Sequence Dihedral(const DataOptions&, int64_t length, const Draw& draw) {
  Sequence sequence;
  int64_t state = 0;
  for (int64_t t = 0; t < length; ++t) {
    const int64_t move = draw(2, t);
    state = move == 0 ? (state + 1) % kStates : state ^ 1;
    sequence.inputs.push_back(move);
    sequence.targets.push_back(state);
  }
  return sequence;
}

// A pair is the token key * S + value, a query the token S * S + key.
Sequence Retrieval(const DataOptions& options, int64_t length, const Draw& draw) {
  const int64_t count = options.classes, pairs = 2 * count;
  Sequence sequence;
  for (int64_t t = 0; t < pairs; ++t) {
    sequence.inputs.push_back(draw(count * count, t));
  }
  sequence.targets.assign(static_cast<size_t>(pairs), kNoTarget);
  for (int64_t t = pairs; t < length; ++t) {
    const int64_t key = sequence.inputs[draw(pairs, t)] / count;
    int64_t latest = pairs - 1;
    while (sequence.inputs[latest] / count != key) --latest;
    sequence.inputs.push_back(count * count + key);
    sequence.targets.push_back(sequence.inputs[latest] % count);
  }
  return sequence;
}

// The numbers 0 .. count - 1 in a random order, by numbers first .. first + count - 1.
std::vector<int64_t> Permutation(int64_t count, int64_t first, const Draw& draw) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = count - 1; i > 0; --i) {
    std::swap(order[i], order[draw(i + 1, first + i)]);
  }
  return order;
}

Sequence Capacity(const DataOptions& options, int64_t, const Draw& draw) {
  const int64_t count = options.classes;
  const std::vector<int64_t> keys = Permutation(count, 0, draw),
                             values = Permutation(count, count, draw);
  Sequence sequence;
  std::vector<int64_t> value_of(keys.size());
  for (int64_t i = 0; i < count; ++i) {
    sequence.inputs.push_back(keys[i] * count + values[i]);
    sequence.targets.push_back(kNoTarget);
    value_of[keys[i]] = values[i];
  }
  for (int64_t key = 0; key < count; ++key) {
    sequence.inputs.push_back(count * count + key);
    sequence.targets.push_back(value_of[key]);
  }
  return sequence;
}

// In training the digit is also a target at each fact: there the model learns what to
// keep, and at the questions that it must keep it.
Sequence Recall(const DataOptions& options, int64_t length, LoaderUse use,
                const Draw& draw) {
  const RecallText text = DrawRecallText(options.classes, length, draw);
  Sequence sequence;
  for (const char character : text.text) {
    sequence.inputs.push_back(static_cast<int64_t>(RecallAlphabet().find(character)));
  }
  sequence.targets.assign(sequence.inputs.size(), kNoTarget);
  for (const int64_t letter : text.questions) {
    sequence.targets[letter] = sequence.inputs[letter + 1];
  }
  if (use != LoaderUse::kTraining) return sequence;
  for (const int64_t letter : text.facts) {
    sequence.targets[letter] = sequence.inputs[letter - 1];
  }
  return sequence;
}

bool HasPairs(const DataOptions& options) {
  return options.task == TaskKind::kRetrieval || options.task == TaskKind::kCapacity;
}

Sequence DrawSequence(const DataOptions& options, int64_t length, LoaderUse use,
                      const Draw& draw) {
  switch (options.task) {
    case TaskKind::kDihedral:
      return Dihedral(options, length, draw);
    case TaskKind::kRetrieval:
      return Retrieval(options, length, draw);
    case TaskKind::kCapacity:
      return Capacity(options, length, draw);
    case TaskKind::kRecall:
      return Recall(options, length, use, draw);
    default:
      return Reverse(options, length, draw);
  }
}

void Append(const std::vector<int64_t>& from, std::vector<int64_t>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

class DrawnLoader final : public Loader {
 public:
  DrawnLoader(const DataOptions& options, LoaderUse use, uint64_t seed)
      : options_(options),
        use_(use),
        seed_(seed),
        order_(Sequences(options, use), seed) {}

  int64_t batches_per_pass() const override {
    const int64_t partial = training() ? 0 : options_.batch - 1;
    return (order_.size() + partial) / options_.batch;
  }

  absl::StatusOr<Batch> Get(int64_t pass, int64_t index) override {
    const int64_t first = index * options_.batch;
    Batch batch = {.rows = std::min(options_.batch, order_.size() - first),
                   .columns = Length(options_, use_),
                   .inputs = {},
                   .targets = {}};
    const auto counted = static_cast<int64_t>(
        std::ceil(static_cast<double>(batch.columns) * options_.test_tail));
    for (int64_t row = first; row < first + batch.rows; ++row) {
      const int64_t number = training() ? order_.At(pass, row) : row;
      Sequence sequence =
          DrawSequence(options_, batch.columns, use_, [&](int64_t n, int64_t i) {
            return UniformBelow(n, seed_, static_cast<uint32_t>(use_),
                                DrawPurpose::kDigits, number * batch.columns + i);
          });
      if (use_ == LoaderUse::kTest) {
        std::fill(sequence.targets.begin(), sequence.targets.end() - counted,
                  kNoTarget);
      }
      Append(sequence.inputs, batch.inputs);
      Append(sequence.targets, batch.targets);
    }
    return batch;
  }

  void Release() override { order_.Release(); }

 private:
  bool training() const { return use_ == LoaderUse::kTraining; }

  const DataOptions options_;
  const LoaderUse use_;
  const uint64_t seed_;
  PassOrder order_;
};

class CopyLoader final : public Loader {
 public:
  CopyLoader(const DataOptions& options, LoaderUse use, uint64_t seed)
      : options_(options), use_(use), seed_(seed) {}

  int64_t batches_per_pass() const override {
    return std::max<int64_t>(1, Sequences(options_, use_) / options_.batch);
  }

  absl::StatusOr<Batch> Get(int64_t pass, int64_t index) override {
    Batch batch = {.rows = options_.batch,
                   .columns = options_.seq_len,
                   .inputs = {},
                   .targets = {},
                   .fresh = index == 0};
    const int64_t length = batches_per_pass() * batch.columns;  // of a stream
    for (int64_t row = 0; row < batch.rows; ++row) {
      const auto digit = [&](int64_t position) {
        return UniformBelow(options_.classes, seed_, static_cast<uint32_t>(use_),
                            DrawPurpose::kDigits,
                            (pass * batch.rows + row) * length + position);
      };
      for (int64_t t = 0; t < batch.columns; ++t) {
        const int64_t position = index * batch.columns + t;
        batch.inputs.push_back(digit(position));
        batch.targets.push_back(position < options_.distance
                                    ? kNoTarget
                                    : digit(position - options_.distance));
      }
    }
    return batch;
  }

 private:
  const DataOptions options_;
  const LoaderUse use_;
  const uint64_t seed_;
};

// Method of Box and Muller.
double Normal(uint64_t seed, int64_t index) {
  const uint64_t bits = DrawBits(seed, 0, DrawPurpose::kFeatures, index);
  const double u = (static_cast<double>(bits >> 32) + 1) / 4294967297.0,
               angle = 2 * M_PI * static_cast<double>(bits & 0xFFFFFFFF) / 4294967296.0;
  return std::sqrt(-2 * numerics::Log(u)) * numerics::Cos(angle);
}

class DrawnTask final : public Task {
 public:
  explicit DrawnTask(const DataOptions& options)
      : options_(options), tokenizer_(MakeTokenizer(options)) {}

  int64_t vocab() const override { return DrawnVocab(options_); }
  std::string Describe() const override {
    return absl::StrFormat(
        "%s: %d training, %d validation and %d test sequences of %d tokens of %d kinds",
        std::string(Name(options_.task)), options_.training_sequences,
        options_.validation_sequences, options_.test_sequences, options_.seq_len,
        vocab());
  }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  const std::string& sha256() const override { return no_text_; }

  absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(const DataOptions& options,
                                                     LoaderUse use,
                                                     uint64_t seed) const override {
    if (use == LoaderUse::kTraining && options.training_sequences < options.batch) {
      return absl::InvalidArgumentError(
          StrCat("data.training_sequences is ", options.training_sequences,
                 ", fewer than the ", options.batch, " of data.batch"));
    }
    if (options.task == TaskKind::kCopy) {
      return std::make_unique<CopyLoader>(options, use, seed);
    }
    return std::make_unique<DrawnLoader>(options, use, seed);
  }
  // Only for pairs: a value is one-hot in the first S numbers, a key is normal in the
  // others.
  std::vector<float> Features(int64_t d_model, uint64_t seed) const override {
    if (!HasPairs(options_)) return {};
    const int64_t count = options_.classes;
    std::vector<float> features(static_cast<size_t>(vocab() * d_model));
    for (int64_t token = 0; token < vocab(); ++token) {
      const bool query = token >= count * count;
      const int64_t key = query ? token - count * count : token / count;
      float* const row = features.data() + token * d_model;
      if (!query) row[token % count] = 1;
      for (int64_t i = count; i < d_model; ++i) {
        row[i] = static_cast<float>(Normal(seed, key * d_model + i));
      }
    }
    return features;
  }
  absl::StatusOr<std::vector<int32_t>> Prompt(const std::string&) const override {
    return std::vector<int32_t>();
  }

 private:
  static std::unique_ptr<Tokenizer> MakeTokenizer(const DataOptions& options) {
    if (options.task != TaskKind::kRecall) return nullptr;
    return MakeCharTokenizer(RecallAlphabet()).value();
  }

  const DataOptions options_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::string no_text_;
};

}  // namespace

std::vector<std::string> DrawnTaskFaults(const DataOptions& options) {
  std::vector<std::string> faults;
  const std::string task = StrCat("data.task = ", Name(options.task));
  const bool stream = options.task == TaskKind::kCopy;
  if (!options.text.empty()) {
    faults.push_back(
        StrCat("data.text does not go with ", task, ": its data are drawn"));
  }
  if (options.loader != (stream ? LoaderKind::kSequential : LoaderKind::kShuffled)) {
    faults.push_back(StrCat("data.loader must be ", stream ? "sequential" : "shuffled",
                            " for ", task));
  }
  if (stream && options.distance <= options.seq_len) {
    faults.push_back(StrCat("data.distance must be more than data.seq_len for ", task,
                            ": the source lies in an earlier segment"));
  }
  if (options.task == TaskKind::kRetrieval && options.seq_len <= 2 * options.classes) {
    faults.push_back(StrCat("data.seq_len must be more than ", 2 * options.classes,
                            " for ", task, ": twice data.classes pairs, then keys"));
  }
  if (options.task == TaskKind::kCapacity && options.seq_len != 2 * options.classes) {
    faults.push_back(StrCat("data.seq_len must be ", 2 * options.classes, " for ", task,
                            ": data.classes pairs and as many keys"));
  }
  if (options.task == TaskKind::kRecall &&
      options.seq_len < LeastRecallLength(options.classes)) {
    faults.push_back(StrCat("data.seq_len must be at least ",
                            LeastRecallLength(options.classes), " for ", task,
                            ": data.classes facts, and three times as many questions"));
  }
  if (options.task == TaskKind::kRecall && options.test_len > 0 &&
      options.test_len < LeastRecallLength(options.classes)) {
    faults.push_back(StrCat("data.test_len must be 0 or at least ",
                            LeastRecallLength(options.classes), " for ", task));
  }
  if (options.test_len > 0 && options.task != TaskKind::kReverse &&
      options.task != TaskKind::kDihedral && options.task != TaskKind::kRecall) {
    faults.push_back(StrCat("data.test_len does not go with ", task));
  }
  return faults;
}

int64_t DrawnVocab(const DataOptions& options) {
  switch (options.task) {
    case TaskKind::kDihedral:
      return kStates;
    case TaskKind::kRetrieval:
    case TaskKind::kCapacity:
      return options.classes * (options.classes + 1);
    case TaskKind::kRecall:
      return static_cast<int64_t>(RecallAlphabet().size());
    default:
      return options.classes;
  }
}

int64_t FeatureWidth(const DataOptions& options) {
  return HasPairs(options) ? options.classes : 0;
}

std::unique_ptr<Task> MakeDrawnTask(const DataOptions& options) {
  return std::make_unique<DrawnTask>(options);
}

}  // namespace mnemon
