// SPDX-License-Identifier: MIT
#include "model/program/decoder_flags.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"
#include "model/operations/cpu_operations.h"

namespace mnemon {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kFp32, WeightFormat::kBf16,
                                     WeightFormat::kInt8};

}  // namespace

void AddDecoderFlags(Command app, DecoderFlags& flags) {
  app.Add("--decoder", &flags.decoder,
          "What serves a model: step, its step form, or sequence, its "
          "sequence form, slow and exact")
      .OneOf({"step", "sequence"});
  Flag precision = app.Add("--precision", &flags.precision,
                           "Of the weights that steps read: fp32, bf16 or int8");
  if (flags.precision.empty()) precision.Default("that of the checkpoint");
  app.Add("--target", &flags.target,
          "Instruction set of the kernels: avx512, avx2, portable or reference")
      .Default("the first of them that the machine has");
}

void AddMaxContextFlag(Command app, std::optional<int64_t>& max_context) {
  app.Add("--max-context", &max_context,
          "Positions of a session at most, where the model has more")
      .Between(1, int64_t{1} << 40)
      .Default("those of the model");
}

absl::StatusOr<DecoderOptions> ToDecoderOptions(const DecoderFlags& flags,
                                                ThreadPool& pool) {
  DecoderOptions options{
      .form = flags.decoder == "sequence" ? DecoderForm::kSequence : DecoderForm::kStep,
      .target = flags.target,
      .pool = &pool};
  const auto operations = FindCpuOperations(flags.target);
  if (!operations.ok()) return operations.status();
  if (flags.precision.empty()) return options;
  const auto* const format = std::ranges::find(kFormats, flags.precision, NameOf);
  if (format == std::end(kFormats)) {
    return InvalidField("precision",
                        StrCat("--precision ", Quoted(flags.precision),
                               " is not in this build: use fp32, bf16 or int8"));
  }
  options.format = *format;
  return options;
}

}  // namespace mnemon
