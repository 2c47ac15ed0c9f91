// SPDX-License-Identifier: MIT
#include "train/reverse_task.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "train/draws.h"

namespace mnemon {
namespace {

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

class ReverseLoader final : public Loader {
 public:
  ReverseLoader(const DataOptions& options, LoaderUse use, uint64_t seed)
      : options_(options),
        use_(use),
        seed_(seed),
        order_(Sequences(options, use), seed) {}

  int64_t batches_per_pass() const override {
    const int64_t partial = training() ? 0 : options_.batch - 1;
    return (order_.size() + partial) / options_.batch;
  }

  Batch Get(int64_t pass, int64_t index) override {
    const int64_t first = index * options_.batch;
    Batch batch = {.rows = std::min(options_.batch, order_.size() - first),
                   .columns = options_.seq_len,
                   .inputs = {},
                   .targets = {}};
    for (int64_t row = first; row < first + batch.rows; ++row) {
      const int64_t sequence = training() ? order_.At(pass, row) : row;
      for (int64_t t = 0; t < batch.columns; ++t) {
        batch.inputs.push_back(
            UniformBelow(options_.classes, seed_, static_cast<uint32_t>(use_),
                         DrawPurpose::kDigits, sequence * batch.columns + t));
      }
      batch.targets.insert(batch.targets.end(), batch.inputs.rbegin(),
                           batch.inputs.rbegin() + batch.columns);
    }
    return batch;
  }

 private:
  bool training() const { return use_ == LoaderUse::kTraining; }

  const DataOptions options_;
  const LoaderUse use_;
  const uint64_t seed_;
  PassOrder order_;
};

class ReverseTask final : public Task {
 public:
  explicit ReverseTask(const DataOptions& options) : options_(options) {}

  int64_t vocab() const override { return options_.classes; }
  std::string Describe() const override {
    return absl::StrFormat(
        "reverse: %d training, %d validation and %d test sequences of %d tokens of %d "
        "kinds",
        options_.training_sequences, options_.validation_sequences,
        options_.test_sequences, options_.seq_len, options_.classes);
  }
  const Tokenizer* tokenizer() const override { return nullptr; }
  const std::string& sha256() const override { return no_text_; }

  absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(const DataOptions& options,
                                                     LoaderUse use,
                                                     uint64_t seed) const override {
    if (use == LoaderUse::kTraining && options.training_sequences < options.batch) {
      return absl::InvalidArgumentError(
          StrCat("data.training_sequences is ", options.training_sequences,
                 ", fewer than the ", options.batch, " of data.batch"));
    }
    return std::make_unique<ReverseLoader>(options, use, seed);
  }
  absl::StatusOr<std::vector<int32_t>> Prompt(const std::string&) const override {
    return std::vector<int32_t>();
  }

 private:
  const DataOptions options_;
  const std::string no_text_;
};

}  // namespace

std::unique_ptr<Task> MakeReverseTask(const DataOptions& options) {
  return std::make_unique<ReverseTask>(options);
}

}  // namespace mnemon
