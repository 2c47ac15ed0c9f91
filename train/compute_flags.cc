// SPDX-License-Identifier: MIT
#include "train/compute_flags.h"

#include <algorithm>
#include <new>
#include <thread>

#include <c10/util/Exception.h>

#include "base/command_line.h"
#include "base/quote.h"
#include "model/device.h"
#include "model/runtime.h"

namespace mnemon {

void AddComputeFlags(Command app, ComputeFlags& flags) {
  app.Add("--threads", &flags.threads, "Cores to use; 0 = all").Between(0, 1024);
  app.Add("--device", &flags.device, "Where to compute: cpu or cuda");
  app.Add("--precision", &flags.precision, "Of the weights: fp32");
}

absl::Status RunComputing(const ComputeFlags& flags,
                          const std::function<absl::Status(at::Device)>& body) {
  if (flags.precision != "fp32") {
    return UsageError(StrCat("--precision ", Quoted(flags.precision),
                             " is not in this build: use --precision fp32"));
  }
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  InitTensorRuntime(flags.threads == 0 ? cores : flags.threads);
  const absl::StatusOr<at::Device> device = FindDevice(flags.device);
  if (!device.ok()) return UsageError(std::string(device.status().message()));
  try {
    return body(*device);
  } catch (const c10::Error& error) {
    return absl::InternalError(
        StrCat("libtorch: ", std::string(error.what_without_backtrace())));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not enough memory");
  }
}

}  // namespace mnemon
