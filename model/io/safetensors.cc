// SPDX-License-Identifier: MIT
#include "model/io/safetensors.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "nlohmann/json.hpp"

namespace mnemon {

static_assert(std::endian::native == std::endian::little,
              "tensor bytes are little-endian in the file and copied as they are");

namespace {

absl::Status Fault(std::string_view name, std::string_view text) {
  return absl::InvalidArgumentError(
      StrCat("safetensors: tensor ", Quoted(name), ": ", text));
}

template <class T>
absl::StatusOr<std::vector<T>> Values(const Safetensors& file, const TensorInfo& tensor,
                                      DType wanted) {
  if (tensor.dtype != wanted) {
    return Fault(tensor.name,
                 StrCat("expected ", Name(wanted), ", found ", Name(tensor.dtype)));
  }
  const std::string_view bytes = file.Bytes(tensor);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

bool IsPickleName(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  for (const std::string_view suffix :
       {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"}) {
    if (path.ends_with(suffix)) return true;
  }
  return false;
}

int64_t MaxSafetensorsFile() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<int64_t>(::sysconf(_SC_PAGE_SIZE));
}

absl::StatusOr<Safetensors> Safetensors::Read(const std::string& path) {
  MNEMON_RETURN_IF_ERROR(CheckFileKind(path, FileKind::kSafetensors));
  if (IsPickleName(path)) {
    return absl::InvalidArgumentError(
        StrCat(Quoted(path),
               " is a pickle file by its name; pickle is never read, convert it to "
               "safetensors; scripts/convert-labml does so for labml's"));
  }
  MNEMON_ASSIGN_OR_RETURN(const std::string file, ReadFile(path, MaxSafetensorsFile()));
  absl::StatusOr<Safetensors> parsed = FromBytes(file);
  if (!parsed.ok()) return Annotated(parsed.status(), Quoted(path));
  return parsed;
}

absl::StatusOr<Safetensors> Safetensors::FromBytes(std::shared_ptr<FileBytes> file) {
  const std::string_view bytes = file->view();
  const auto size = static_cast<int64_t>(bytes.size());
  uint64_t length = 0;
  MNEMON_RETURN_IF_ERROR(file->Await(std::min<int64_t>(size, sizeof(length))));
  // A shorter file is refused below.
  if (bytes.size() >= sizeof(length))
    std::memcpy(&length, bytes.data(), sizeof(length));
  // Longer ones are refused.
  length = std::min<uint64_t>(length, kMaxSafetensorsHeader);
  MNEMON_RETURN_IF_ERROR(
      file->Await(std::min(size, static_cast<int64_t>(sizeof(length) + length))));
  Safetensors result;
  MNEMON_ASSIGN_OR_RETURN(result.header_, ParseSafetensors(bytes));
  result.file_ = std::move(file);
  return result;
}

const TensorInfo* Safetensors::Find(std::string_view name) const {
  const std::vector<uint32_t>& by_name = header_.by_name;
  const auto at = std::lower_bound(
      by_name.begin(), by_name.end(), name,
      [this](uint32_t i, std::string_view n) { return header_.tensors[i].name < n; });
  if (at == by_name.end() || header_.tensors[*at].name != name) return nullptr;
  return &header_.tensors[*at];
}

std::string_view Safetensors::bytes() const {
  const std::string_view bytes = file_->view();
  file_->Await(static_cast<int64_t>(bytes.size())).IgnoreError();
  return bytes;
}

std::string_view Safetensors::Bytes(const TensorInfo& tensor) const {
  file_->Await(tensor.end).IgnoreError();
  return file_->view().substr(static_cast<size_t>(tensor.begin),
                              static_cast<size_t>(tensor.end - tensor.begin));
}

absl::StatusOr<std::vector<float>> Safetensors::Floats(const TensorInfo& tensor) const {
  return Values<float>(*this, tensor, DType::kF32);
}

absl::StatusOr<std::vector<int64_t>> Safetensors::Ints(const TensorInfo& tensor) const {
  return Values<int64_t>(*this, tensor, DType::kI64);
}

absl::StatusOr<std::string> FormatSafetensorsHeader(
    std::span<const TensorToWrite> tensors,
    const std::map<std::string, std::string>& metadata) {
  using nlohmann::json;
  std::string header = "{";
  int64_t end = 0;
  try {
    if (!metadata.empty()) header += "\"__metadata__\":" + json(metadata).dump() + ",";
    for (const TensorToWrite& tensor : tensors) {
      const std::optional<int64_t> bytes = TensorBytes(tensor.dtype, tensor.shape);
      if (!bytes || *bytes < 0 || *bytes > std::numeric_limits<int64_t>::max() - end) {
        return Fault(tensor.name, StrCat(Describe(tensor.dtype, tensor.shape),
                                         " has no size in bytes"));
      }
      const json entry = {{"dtype", std::string(Name(tensor.dtype))},
                          {"shape", tensor.shape},
                          {"data_offsets", {end, end + *bytes}}};
      header += json(tensor.name).dump() + ":" + entry.dump() + ",";
      end += *bytes;
    }
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError("safetensors: a name or metadata is not UTF-8");
  }
  if (header.back() == ',') header.pop_back();
  header += '}';
  // The data must begin aligned for readers that map the file.
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file + header;
}

absl::StatusOr<std::string> FormatSafetensors(
    std::span<const TensorToWrite> tensors,
    const std::map<std::string, std::string>& metadata) {
  size_t size = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::optional<int64_t> bytes = TensorBytes(tensor.dtype, tensor.shape);
    if (!bytes || *bytes != static_cast<int64_t>(tensor.data.size())) {
      return Fault(tensor.name,
                   StrCat(Describe(tensor.dtype, tensor.shape),
                          " does not fit data of ", tensor.data.size(), " bytes"));
    }
    size += tensor.data.size();
  }
  MNEMON_ASSIGN_OR_RETURN(std::string file, FormatSafetensorsHeader(tensors, metadata));
  file.reserve(file.size() + size);
  for (const TensorToWrite& tensor : tensors) file += tensor.data;
  // The writer obeys the reader's rules: names, duplicates, header size.
  MNEMON_RETURN_IF_ERROR(ParseSafetensors(file).status());
  return file;
}

}  // namespace mnemon
