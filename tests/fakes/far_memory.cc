// SPDX-License-Identifier: MIT
#include "tests/fakes/far_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "base/check.h"

namespace mnemon {

FarMemory::FarMemory() : file_(memfd_create("far_memory", MFD_CLOEXEC)) {
  constexpr int64_t kBytes = kUnits * kUnit;
  MNEMON_CHECK(file_ >= 0 && ftruncate(file_, kBytes) == 0);
  void* const far = mmap(nullptr, kBytes, PROT_NONE, MAP_SHARED, file_, 0);
  void* const near =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  MNEMON_CHECK(far != MAP_FAILED && near != MAP_FAILED);
  far_ = static_cast<char*>(far);
  near_ = static_cast<char*>(near);
}

FarMemory::~FarMemory() {
  munmap(far_, kUnits * kUnit);
  munmap(near_, kUnits * kUnit);
  close(file_);
}

void FarMemory::Mark(const void* begin, int64_t bytes, bool there) {
  const int64_t first = static_cast<const char*>(begin) - far_;
  MNEMON_CHECK(first >= 0 && first % kUnit == 0 && bytes % kUnit == 0);
  for (int64_t at = first; at < first + bytes; at += kUnit) {
    MNEMON_CHECK(there_[at / kUnit].exchange(there) != there);
  }
}

float* FarMemory::Near(const float* far, int64_t count) {
  const int64_t begin = reinterpret_cast<const char*>(far) - far_;
  const int64_t end = begin + count * static_cast<int64_t>(sizeof(float));
  MNEMON_CHECK(begin >= 0 && end <= kUnits * kUnit);
  for (int64_t unit = begin / kUnit; unit * kUnit < end; ++unit) {
    MNEMON_CHECK(there_[unit]);
  }
  return reinterpret_cast<float*>(near_ + begin);
}

void* FarMemory::Take(int64_t bytes, Taker) {
  MNEMON_CHECK(bytes > 0);
  const int64_t begin = used_.fetch_add(bytes);
  if (begin + bytes > kUnits * kUnit) throw std::bad_alloc();
  Mark(far_ + begin, bytes, true);
  return far_ + begin;
}

void FarMemory::GiveBack(void* begin, int64_t bytes) {
  Mark(begin, bytes, false);
  const int64_t first = static_cast<char*>(begin) - far_;
  MNEMON_CHECK(
      fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, bytes) == 0);
}

void FarMemory::TakeAgain(void* begin, int64_t bytes) { Mark(begin, bytes, true); }

void FarMemory::Populate(void* begin, int64_t bytes) {
  Near(static_cast<float*>(begin), bytes / static_cast<int64_t>(sizeof(float)));
}

void FarMemory::Zero(float* to, int64_t count) { Fill(to, count, 0.0f); }

void FarMemory::Fill(float* to, int64_t count, float value) {
  std::fill_n(Near(to, count), count, value);
}

void FarMemory::Copy(const float* from, float* to, int64_t count) {
  std::copy_n(Near(from, count), count, Near(to, count));
}

absl::Status FarMemory::CopyOut(std::span<const HostCopy> copies) {
  for (const HostCopy& copy : copies) {
    std::copy_n(Near(copy.block, copy.count), copy.count, copy.host);
  }
  return absl::OkStatus();
}

absl::Status FarMemory::CopyIn(std::span<const HostCopy> copies) {
  for (const HostCopy& copy : copies) {
    std::copy_n(copy.host, copy.count, Near(copy.block, copy.count));
  }
  return absl::OkStatus();
}

}  // namespace mnemon
