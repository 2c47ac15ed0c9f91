// SPDX-License-Identifier: MIT
#include "model/io/weight_files.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "base/status_macros.h"

namespace mnemon {
namespace {

// Bytes of a file before an address.
int64_t BytesBefore(const FileBytes& file, const void* address) {
  const std::string_view all = file.view();
  const auto* const at = static_cast<const char*>(address);
  if (std::less<>()(at, all.data())) return 0;
  if (std::less<>()(all.data() + all.size(), at)) {
    return static_cast<int64_t>(all.size());
  }
  return at - all.data();
}

}  // namespace

int64_t WeightFiles::bytes() const {
  int64_t bytes = 0;
  for (const Safetensors& file : files_) {
    bytes += static_cast<int64_t>(file.file().view().size());
  }
  return bytes;
}

WeightFiles::Found WeightFiles::Find(std::string_view name) const {
  for (const Safetensors& file : files_) {
    if (const TensorInfo* info = file.Find(name); info != nullptr) {
      return {.info = info, .data = file.file().view().data() + info->begin};
    }
  }
  return {};
}

absl::Status WeightFiles::Finish() const {
  for (const Safetensors& file : files_) {
    MNEMON_RETURN_IF_ERROR(file.file().Finish());
  }
  return absl::OkStatus();
}

WeightStream WeightFiles::Stream() const {
  const auto files = std::make_shared<const std::vector<Safetensors>>(files_);
  return {.await =
              [files](const void* end) {
                for (const Safetensors& file : *files) {
                  // Finish reports failures.
                  file.file().Await(BytesBefore(file.file(), end)).IgnoreError();
                }
              },
          .release_before =
              [files](const void* begin) {
                for (const Safetensors& file : *files) {
                  file.file().ReleaseBefore(BytesBefore(file.file(), begin));
                }
              }};
}

}  // namespace mnemon
