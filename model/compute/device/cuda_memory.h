// SPDX-License-Identifier: MIT
// Address ranges of a GPU and memory mapped to them, by CUDA's virtual memory
// management. Its functions exist only in the driver library and are looked up at run
// time, so that programs start without the library.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace mnemon {

// Safe for concurrent use.
class CudaMemory {
 public:
  // Looks up the functions. Returns false if this driver lacks them.
  bool Load();

  // Null or false if there is no memory, or the device is lost.
  char* Reserve(int64_t bytes);
  bool Map(char* begin, int64_t bytes, int64_t unit);
  // REQUIRES: nothing uses it any more; the same for Release.
  void Unmap(char* begin, int64_t bytes, int64_t unit);
  void Release(char* begin);
  // Drops everything, after a reset of the device.
  void Forget();

  // Queued on the stream.
  bool Fill(void* to, uint32_t word, int64_t count, CUstream stream);

 private:
  struct Region {
    int64_t size = 0;
    std::map<char*, std::pair<CUmemGenericAllocationHandle, int64_t>> mapped;
  };

  bool MapUnit(Region& region, char* at, int64_t bytes);
  void UnmapUnit(char* at, CUmemGenericAllocationHandle handle, int64_t bytes);

  CUresult (*reserve_)(CUdeviceptr*, size_t, size_t, CUdeviceptr,
                       unsigned long long) = nullptr;
  CUresult (*release_)(CUdeviceptr, size_t) = nullptr;
  CUresult (*create_)(CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*,
                      unsigned long long) = nullptr;
  CUresult (*destroy_)(CUmemGenericAllocationHandle) = nullptr;
  CUresult (*map_)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
                   unsigned long long) = nullptr;
  CUresult (*unmap_)(CUdeviceptr, size_t) = nullptr;
  CUresult (*access_)(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) = nullptr;
  CUresult (*fill_)(CUdeviceptr, unsigned int, size_t, CUstream) = nullptr;

  std::mutex mutex_;  // guards regions_
  std::map<char*, Region> regions_;
};

}  // namespace mnemon
