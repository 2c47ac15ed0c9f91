// SPDX-License-Identifier: MIT
#include "model/registry/decoder_flags.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"
#include "model/kernels/cpu_operations.h"

namespace mnemon {

void AddDecoderFlags(Command app, DecoderFlags& flags) {
  app.Add("--decoder", &flags.decoder,
          "What serves a model: step, its step form where it has one, or sequence, its "
          "sequence form, slow and exact")
      .OneOf({"step", "sequence"});
  app.Add("--precision", &flags.precision,
          "Of the weights that steps read: fp32 or bf16");
  app.Add(
         "--target", &flags.target,
         StrCat("Instruction set of the kernels, one of ", StrJoin(CpuTargets(), ", ")))
      .Default("the first of them");
}

absl::StatusOr<DecoderOptions> ToDecoderOptions(const DecoderFlags& flags,
                                                ThreadPool& pool) {
  DecoderOptions options{
      .form = flags.decoder == "sequence" ? DecoderForm::kSequence : DecoderForm::kStep,
      .target = flags.target,
      .pool = &pool};
  if (flags.precision == "bf16") {
    options.format = WeightFormat::kBf16;
  } else if (flags.precision != "fp32") {
    return InvalidField("precision", StrCat("--precision ", Quoted(flags.precision),
                                            " is not in this build: use fp32 or bf16"));
  }
  const auto operations = FindCpuOperations(flags.target);
  if (!operations.ok()) return operations.status();
  return options;
}

}  // namespace mnemon
