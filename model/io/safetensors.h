// SPDX-License-Identifier: MIT
// The safetensors format, version of 2023: 8 bytes little-endian header length, a JSON
// header, then the data. Reader for hostile files, writer for our own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_bytes.h"

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
  std::vector<TensorInfo> tensors;  // in the order of the data, then of the names
  std::vector<uint32_t> by_name;    // their indices in the order of their names
  std::map<std::string, std::string> metadata;
};

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;
// Our own bounds within that header: dimensions of a tensor, bytes of all metadata.
inline constexpr int64_t kMaxSafetensorsRank = 64;
inline constexpr int64_t kMaxSafetensorsMetadata = 16 << 20;

// A name that stands for pickle (.pt, .pth, .bin, .ckpt, .pkl, .pickle): such files are
// refused by name and never opened.
bool IsPickleName(std::string_view path);

// Bytes of a tensor; nullopt when they overflow, -1 when a sub-byte type does not end
// on a byte.
std::optional<int64_t> TensorBytes(DType type, std::span<const int64_t> shape);

// "F32 [2, 3]", for messages.
std::string Describe(DType type, std::span<const int64_t> shape);

// Checks the whole file image `file`: header length, UTF-8, JSON without duplicate
// keys, known types, shapes and products without overflow, spans that cover the data
// exactly without hole or overlap. Allocates nothing of a declared size.
// INVALID_ARGUMENT names the tensor and the fault.
absl::StatusOr<SafetensorsHeader> ParseSafetensors(std::string_view file);

// Bytes a file may have: the memory of this machine. A sparse file can claim any size;
// what cannot fit is not tried.
int64_t MaxSafetensorsFile();

// A file read whole. Constant after construction, but for what is released.
class Safetensors {
 public:
  // Errors of ReadFile and ParseSafetensors, prefixed with the path.
  static absl::StatusOr<Safetensors> Read(const std::string& path);
  static absl::StatusOr<Safetensors> FromBytes(FileBytes file);
  static absl::StatusOr<Safetensors> FromBytes(std::string_view file) {
    return FromBytes(FileBytes(file));
  }

  const SafetensorsHeader& header() const { return header_; }
  std::string_view bytes() const { return file_.view(); }  // the whole file
  const TensorInfo* Find(std::string_view name) const;     // null when absent
  std::string_view Bytes(const TensorInfo& tensor) const;
  // Gives the memory of a tensor's bytes back; they must not be read afterwards. Safe
  // for concurrent calls.
  void Release(std::string_view bytes) const { file_.Release(bytes); }
  // Values of a float32 or int64 tensor, copied out. INVALID_ARGUMENT for another type.
  absl::StatusOr<std::vector<float>> Floats(const TensorInfo& tensor) const;
  absl::StatusOr<std::vector<int64_t>> Ints(const TensorInfo& tensor) const;

 private:
  FileBytes file_;
  SafetensorsHeader header_;
};

// One tensor to write; `data` holds the bytes, row-major.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string_view data;
};

// A file image: tensors in the given order, header padded with spaces to a multiple
// of 8. INVALID_ARGUMENT for duplicate names or data of the wrong length.
absl::StatusOr<std::string> FormatSafetensors(
    std::span<const TensorToWrite> tensors,
    const std::map<std::string, std::string>& metadata = {});

}  // namespace mnemon
