// SPDX-License-Identifier: MIT
#include "train/commands/compute_flags.h"

#include <memory>
#include <new>
#include <system_error>

#include <c10/util/Exception.h>

#include "base/out_of_memory.h"
#include "base/process/command_line.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/device/open_device.h"
#include "model/compute/thread_pool.h"
#include "model/sequence/device.h"
#include "model/sequence/runtime.h"

namespace mnemon {
namespace {

// The device of the step form. Null if that is the CPU, or the device of tensors: a
// build without CUDA may have a libtorch with it.
absl::StatusOr<std::unique_ptr<DeviceDriver>> StepDevice(const ComputeFlags& flags) {
  if (!flags.steps || flags.decoder.decoder == "sequence") return nullptr;
  auto driver = OpenDevice(flags.device);
  if (absl::IsUnimplemented(driver.status())) return nullptr;
  if (!driver.ok()) return UsageError(std::string(driver.status().message()));
  return driver;
}

}  // namespace

void AddComputeFlags(Command app, ComputeFlags& flags) {
  app.Add("--threads", &flags.threads, "Cores to use; 0 = all").Between(0, 1024);
  app.Add("--device", &flags.device, "Where to compute: cpu or cuda");
}

void AddStepComputeFlags(Command app, ComputeFlags& flags) {
  AddComputeFlags(app, flags);
  AddDecoderFlags(app, flags.decoder);
  AddMaxContextFlag(app, flags.max_context);
  flags.steps = true;
}

absl::StatusOr<at::Device> TensorDevice(const std::string& name) {
  absl::StatusOr<at::Device> device = FindDevice(name);
  if (!device.ok()) return UsageError(std::string(device.status().message()));
  return device;
}

int ThreadsOf(const ComputeFlags& flags) {
  return flags.threads > 0 ? flags.threads : UsableCores();
}

absl::Status RunComputing(const ComputeFlags& flags,
                          const std::function<absl::Status(const Compute&)>& body) {
  const int threads = ThreadsOf(flags);
  InitTensorRuntime(threads);
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceDriver> driver,
                          StepDevice(flags));
  at::Device device = at::kCPU;
  if (driver == nullptr) {
    MNEMON_ASSIGN_OR_RETURN(device, TensorDevice(flags.device));
  }
  try {
    ThreadPool pool(PoolThreads(threads));
    absl::StatusOr<DecoderOptions> decoder = ToDecoderOptions(flags.decoder, pool);
    if (!decoder.ok()) return UsageError(std::string(decoder.status().message()));
    decoder->device = driver.get();
    return body({.device = device,
                 .decoder = *decoder,
                 .max_context = flags.max_context,
                 .device_name = flags.device});
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
