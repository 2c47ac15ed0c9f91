// SPDX-License-Identifier: MIT
#include "train/compute_flags.h"

#include <new>
#include <system_error>

#include <c10/util/Exception.h>

#include "base/command_line.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "model/kernels/thread_pool.h"
#include "model/sequence/device.h"
#include "model/sequence/runtime.h"

namespace mnemon {

void AddComputeFlags(Command app, ComputeFlags& flags) {
  app.Add("--threads", &flags.threads, "Cores to use; 0 = all").Between(0, 1024);
  app.Add("--device", &flags.device, "Where to compute: cpu or cuda");
}

void AddStepComputeFlags(Command app, ComputeFlags& flags) {
  AddComputeFlags(app, flags);
  AddDecoderFlags(app, flags.decoder);
}

int ThreadsOf(const ComputeFlags& flags) {
  return flags.threads > 0 ? flags.threads : UsableCores();
}

absl::Status RunComputing(const ComputeFlags& flags,
                          const std::function<absl::Status(const Compute&)>& body) {
  const int threads = ThreadsOf(flags);
  InitTensorRuntime(threads);
  const absl::StatusOr<at::Device> device = FindDevice(flags.device);
  if (!device.ok()) return UsageError(std::string(device.status().message()));
  try {
    ThreadPool pool(PoolThreads(threads));
    const absl::StatusOr<DecoderOptions> decoder =
        ToDecoderOptions(flags.decoder, pool);
    if (!decoder.ok()) return UsageError(std::string(decoder.status().message()));
    return body({.device = *device, .decoder = *decoder});
  } catch (const c10::Error& error) {
    return absl::InternalError(
        StrCat("libtorch: ", std::string(error.what_without_backtrace())));
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        StrCat("--threads ", threads, ": ", std::string(error.what())));
  }
}

}  // namespace mnemon
