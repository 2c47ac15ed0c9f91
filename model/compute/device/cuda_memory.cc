// SPDX-License-Identifier: MIT
#include "model/compute/device/cuda_memory.h"

#include <cuda_runtime_api.h>

#include <iterator>

namespace mnemon {
namespace {

// First version of CUDA with all of these functions.
constexpr unsigned int kVersion = 11020;

template <class Function>
bool Find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault,
                                       &result) != cudaSuccess ||
      result != cudaDriverEntryPointSuccess) {
    return false;
  }
  function = reinterpret_cast<Function>(found);
  return true;
}

CUmemLocation FirstDevice() {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = 0;
  return location;
}

CUdeviceptr AddressOf(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }

}  // namespace

bool CudaMemory::Load() {
  return Find("cuMemAddressReserve", reserve_) && Find("cuMemAddressFree", release_) &&
         Find("cuMemCreate", create_) && Find("cuMemRelease", destroy_) &&
         Find("cuMemMap", map_) && Find("cuMemUnmap", unmap_) &&
         Find("cuMemSetAccess", access_) && Find("cuMemsetD32Async", fill_);
}

char* CudaMemory::Reserve(int64_t bytes) {
  CUdeviceptr begin = 0;
  const auto size = static_cast<size_t>(bytes);
  if (reserve_(&begin, size, 0, 0, 0) != CUDA_SUCCESS) return nullptr;
  auto* const at = reinterpret_cast<char*>(begin);
  const std::lock_guard lock(mutex_);
  regions_[at].size = bytes;
  return at;
}

bool CudaMemory::MapUnit(Region& region, char* at, int64_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = FirstDevice();
  CUmemAccessDesc access{};
  access.location = FirstDevice();
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto size = static_cast<size_t>(bytes);
  CUmemGenericAllocationHandle handle = 0;
  if (create_(&handle, size, &properties, 0) != CUDA_SUCCESS) return false;
  if (map_(AddressOf(at), size, 0, handle, 0) != CUDA_SUCCESS) {
    destroy_(handle);
    return false;
  }
  if (access_(AddressOf(at), size, &access, 1) != CUDA_SUCCESS) {
    UnmapUnit(at, handle, bytes);
    return false;
  }
  region.mapped[at] = {handle, bytes};
  return true;
}

void CudaMemory::UnmapUnit(char* at, CUmemGenericAllocationHandle handle,
                           int64_t bytes) {
  unmap_(AddressOf(at), static_cast<size_t>(bytes));
  destroy_(handle);
}

bool CudaMemory::Map(char* begin, int64_t bytes, int64_t unit) {
  const std::lock_guard lock(mutex_);
  const auto next = regions_.upper_bound(begin);
  if (next == regions_.begin()) return false;  // from before a reset
  Region& region = std::prev(next)->second;
  for (int64_t at = 0; at < bytes; at += unit) {
    if (MapUnit(region, begin + at, unit)) continue;
    for (int64_t undone = 0; undone < at; undone += unit) {
      const auto one = region.mapped.find(begin + undone);
      UnmapUnit(one->first, one->second.first, unit);
      region.mapped.erase(one);
    }
    return false;
  }
  return true;
}

void CudaMemory::Unmap(char* begin, int64_t bytes, int64_t unit) {
  const std::lock_guard lock(mutex_);
  const auto next = regions_.upper_bound(begin);
  if (next == regions_.begin()) return;
  Region& region = std::prev(next)->second;
  for (int64_t at = 0; at < bytes; at += unit) {
    const auto one = region.mapped.find(begin + at);
    if (one == region.mapped.end()) continue;
    UnmapUnit(one->first, one->second.first, unit);
    region.mapped.erase(one);
  }
}

void CudaMemory::Release(char* begin) {
  const std::lock_guard lock(mutex_);
  const auto region = regions_.find(begin);
  if (region == regions_.end()) return;
  for (const auto& [at, memory] : region->second.mapped) {
    UnmapUnit(at, memory.first, memory.second);
  }
  release_(AddressOf(begin), static_cast<size_t>(region->second.size));
  regions_.erase(region);
}

void CudaMemory::Forget() {
  const std::lock_guard lock(mutex_);
  regions_.clear();
}

bool CudaMemory::Fill(void* to, uint32_t word, int64_t count, CUstream stream) {
  return fill_(AddressOf(to), word, static_cast<size_t>(count), stream) == CUDA_SUCCESS;
}

}  // namespace mnemon
