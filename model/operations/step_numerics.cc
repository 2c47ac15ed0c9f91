// SPDX-License-Identifier: MIT
#include "model/operations/step_numerics.h"

#include "base/strings.h"
#include "model/operations/cpu_operations.h"

namespace mnemon {

std::string StepNumericsId(const StepOptions& options) {
  const std::string format = NameOf(options.format);
  if (IsReference(*options.operations)) {
    return StrCat("step/", format, "/reference");
  }
  return StrCat("step/", format, "/r", kKernelRevision);
}

}  // namespace mnemon
