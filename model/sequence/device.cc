// SPDX-License-Identifier: MIT
#include "model/sequence/device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include <ATen/Context.h>
#include <ATen/Version.h>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"
#include "model/sequence/gpu.h"

namespace mnemon {
namespace {

// A name as part of an identifier: lower case, no blanks.
std::string Plain(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '-';
  });
  return name;
}

std::string CpuClass() {
  constexpr std::string_view kMark = "CPU capability usage: ";
  std::string target = "cpu";
  const std::string build = at::show_config();
  if (const size_t at = build.find(kMark); at != std::string::npos) {
    const size_t begin = at + kMark.size();
    target += "-" + build.substr(begin, build.find_first_of(" \n", begin) - begin);
  }
  using CoreName = char* (*)();
  const auto core =
      reinterpret_cast<CoreName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  if (core != nullptr) target += std::string("-") + core();
  return Plain(target);
}

absl::Status NotUsable(const std::string& fault) {
  return InvalidField("device",
                      StrCat("--device cuda: ", fault, ", or use --device cpu"));
}

}  // namespace

absl::StatusOr<at::Device> FindDevice(const std::string& name) {
  if (name == "cpu") return at::Device(at::kCPU);
  if (name != "cuda") {
    return InvalidField(
        "device", StrCat("--device ", Quoted(name), " is not known: use cpu or cuda"));
  }
  // cuBLAS guarantees the same bits for the same call only with a fixed workspace; it
  // reads this when the first handle is created.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  const Gpu gpu = FindGpu();
  if (!gpu.fault.empty()) return NotUsable(gpu.fault);
  if (!at::globalContext().hasCUDA()) {
    return NotUsable("this libtorch has no CUDA; build with the preset cuda");
  }
  return at::Device(at::kCUDA, 0);
}

std::string DeviceClass(at::Device device) {
  return device.is_cuda() ? "cuda-" + Plain(FindGpu().name) : CpuClass();
}

at::Device DeviceOf(const Model& model) {
  at::Device device = at::kCPU;
  // Not const, for visitors that replace tensors; this one only looks.
  const_cast<Model&>(model).Visit(
      [&device](const std::string&, at::Tensor& tensor) { device = tensor.device(); });
  return device;
}

void MoveWeights(Model& model, at::Device device) {
  model.Visit([device](const std::string&, at::Tensor& tensor) {
    tensor = tensor.detach().to(device);
  });
}

}  // namespace mnemon
