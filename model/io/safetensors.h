// SPDX-License-Identifier: MIT
// The safetensors format, version of 2023: 8 bytes little-endian header length, a JSON
// header, then the data. The reader accepts untrusted files; the writer is for our own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files/file_bytes.h"

namespace mnemon {

enum class DType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
};
std::string_view Name(DType type);  // as in the header: "F32"
int Bits(DType type);

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes, from the start of the file
  int64_t end = 0;

  int64_t elements() const;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // ordered by data, then by name
  std::vector<uint32_t> by_name;    // indices of tensors, ordered by name
  std::map<std::string, std::string> metadata;
};

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;
// Our own limits within that header: dimensions of a tensor, bytes of all metadata.
inline constexpr int64_t kMaxSafetensorsRank = 64;
inline constexpr int64_t kMaxSafetensorsMetadata = 16 << 20;

// A name that indicates pickle (.pt, .pth, .bin, .ckpt, .pkl, .pickle): such files are
// refused, whatever their contents.
bool IsPickleName(std::string_view path);

// Bytes of a tensor; nullopt on overflow, -1 if a sub-byte type does not end on a byte.
std::optional<int64_t> TensorBytes(DType type, std::span<const int64_t> shape);

// "F32 [2, 3]", for messages.
std::string Describe(DType type, std::span<const int64_t> shape);

// Parses the file image `file`, reading only the header: header length, UTF-8, JSON
// without duplicate keys, known types, shapes and products without overflow, spans that
// cover the data exactly without hole or overlap. Allocates nothing of a declared size.
// INVALID_ARGUMENT names the tensor and the fault.
absl::StatusOr<SafetensorsHeader> ParseSafetensors(std::string_view file);

// Largest supported file: the memory of this machine. A sparse file can claim any size,
// and is not read if it cannot fit.
int64_t MaxSafetensorsFile();

// A file whose data may still be loading: see FileBytes. Immutable after construction,
// except for what is released.
class Safetensors {
 public:
  // Errors of CheckFileKind, ReadFile and ParseSafetensors, prefixed with the path.
  static absl::StatusOr<Safetensors> Read(const std::string& path);
  // Waits for the header only. Errors of FileBytes::Await and ParseSafetensors.
  static absl::StatusOr<Safetensors> FromBytes(std::shared_ptr<FileBytes> file);
  static absl::StatusOr<Safetensors> FromBytes(std::string_view file) {
    return FromBytes(std::make_shared<FileBytes>(file));
  }

  const SafetensorsHeader& header() const { return header_; }
  FileBytes& file() const { return *file_; }
  const TensorInfo* Find(std::string_view name) const;  // null if absent
  // The whole file, or a tensor's data, once it is loaded. What could not be read is
  // zeros: file().Finish() returns the error.
  std::string_view bytes() const;
  std::string_view Bytes(const TensorInfo& tensor) const;
  // Values of a float32 or int64 tensor, copied out. INVALID_ARGUMENT for another type.
  absl::StatusOr<std::vector<float>> Floats(const TensorInfo& tensor) const;
  absl::StatusOr<std::vector<int64_t>> Ints(const TensorInfo& tensor) const;

 private:
  std::shared_ptr<FileBytes> file_ = std::make_shared<FileBytes>(std::string_view());
  SafetensorsHeader header_;
};

// One tensor to write; `data` holds the bytes, row-major.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string_view data;
};

// Everything before the data of a file with these tensors, in the given order; their
// data is not needed. Errors of FormatSafetensors.
absl::StatusOr<std::string> FormatSafetensorsHeader(
    std::span<const TensorToWrite> tensors,
    const std::map<std::string, std::string>& metadata = {});

// A file image: tensors in the given order, header padded with spaces to a multiple
// of 8. INVALID_ARGUMENT for duplicate names or data of the wrong length.
absl::StatusOr<std::string> FormatSafetensors(
    std::span<const TensorToWrite> tensors,
    const std::map<std::string, std::string>& metadata = {});

}  // namespace mnemon
