// SPDX-License-Identifier: MIT
#include "model/compute/step_options.h"

#include "base/strings.h"
#include "model/compute/cpu_operations.h"

namespace mnemon {

std::string StepNumericsId(const StepOptions& options) {
  const std::string format = NameOf(options.format);
  if (IsReference(*options.operations)) {
    return StrCat("step/", format, "/reference");
  }
  return StrCat("step/", format, "/r", kKernelRevision);
}

}  // namespace mnemon
