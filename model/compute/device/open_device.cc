// SPDX-License-Identifier: MIT
#include "model/compute/device/open_device.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"
#include "model/compute/device/cuda_driver.h"

namespace mnemon {

absl::StatusOr<std::unique_ptr<DeviceDriver>> OpenDevice(std::string_view name) {
  if (name == "cpu") return nullptr;
  if (name == "cuda") return MakeCudaDriver();
  return InvalidField("device", StrCat("--device ", Quoted(name), ": use cpu or cuda"));
}

}  // namespace mnemon
