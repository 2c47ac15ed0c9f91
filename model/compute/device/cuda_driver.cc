// SPDX-License-Identifier: MIT
#include "model/compute/device/cuda_driver.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/strings.h"
#include "model/compute/device/cuda_memory.h"
#include "model/operations/cuda/step_kernels.h"

namespace mnemon {
namespace {

// Up to this many rows a step is one kernel: on an H100 this is faster than a graph
// with 8 and with 16 rows (bench/gpu_steps.md).
constexpr int64_t kWholeStepRows = 16;
// Freed memory that is kept for later allocations.
constexpr uint64_t kKeptBytes = uint64_t{64} << 20;

absl::Status NoGpu(std::string_view why) {
  return MakeError(absl::StatusCode::kUnavailable, StrCat("--device cuda: ", why),
                   {.reason = "NO_GPU", .field = "device"});
}

size_t Size(int64_t bytes) { return static_cast<size_t>(bytes); }

// The GPU, shared by all drivers of the process. A reset invalidates everything of all
// drivers, so nobody may be using it then.
struct Gpu {
  std::shared_mutex mutex;  // shared for calls of CUDA, exclusive for a reset
  int64_t resets = 0;       // guarded by it
};

Gpu& TheGpu() {
  static Gpu gpu;
  return gpu;
}

class CudaGraph final : public DeviceGraph {
 public:
  // `now` counts restarts of the device; it must outlive the graph.
  CudaGraph(cudaGraphExec_t graph, const int64_t& now)
      : graph_(graph), now_(now), made_(now) {}
  ~CudaGraph() override {
    if (there()) cudaGraphExecDestroy(graph_);
  }

  cudaGraphExec_t graph() const { return graph_; }
  // False if there is no graph, or it was lost in a restart.
  bool there() const { return graph_ != nullptr && made_ == now_; }

 private:
  const cudaGraphExec_t graph_;
  const int64_t& now_;
  const int64_t made_;
};

class CudaDriver final : public DeviceDriver {
 public:
  ~CudaDriver() override;

  absl::Status Open();

  const DeviceLimits& limits() const override { return limits_; }
  bool lost() const override { return lost_.load(std::memory_order_relaxed); }

  int64_t free_bytes() override;
  void* Take(int64_t bytes) override;
  void GiveBack(void* memory) override;
  char* TakeAddresses(int64_t bytes) override;
  void GiveBackAddresses(char* begin) override;
  void Map(char* begin, int64_t bytes) override;
  void Unmap(char* begin, int64_t bytes) override;
  void* TakePinned(int64_t bytes) override;
  void GiveBackPinned(void* memory) override;

  void CopyIn(const void* host, void* device, int64_t bytes) override {
    CopyAny(host, device, bytes, cudaMemcpyHostToDevice);
  }
  void CopyOut(const void* device, void* host, int64_t bytes) override {
    CopyAny(device, host, bytes, cudaMemcpyDeviceToHost);
  }
  void Copy(const void* from, void* to, int64_t bytes) override {
    CopyAny(from, to, bytes, cudaMemcpyDeviceToDevice);
  }
  void Fill(float* to, int64_t count, float value) override;
  void Launch(StepKernel kernel, const LaunchShape& shape,
              const StepLaunch& launch) override;
  void Launch(const DeviceGraph& graph) override;
  void BeginGraph() override;
  std::unique_ptr<DeviceGraph> EndGraph() override;

  int64_t Mark() override;
  absl::Status Wait(int64_t mark) override;
  absl::Status Restart() override;

 private:
  // Number of events. A mark reuses the event of the mark kEvents before it.
  static constexpr size_t kEvents = 64;

  // Prevents a reset of the GPU during a call.
  class Use {
   public:
    explicit Use(CudaDriver& driver) : lock_(TheGpu().mutex) {
      if (TheGpu().resets != driver.resets_) {
        driver.Lose("it was reset, because it had failed for another model");
      }
      ready_ = !driver.lost();
    }
    // False if the device is lost.
    explicit operator bool() const { return ready_; }

   private:
    const std::shared_lock<std::shared_mutex> lock_;
    bool ready_ = false;
  };

  // Creates stream and events, and sets limits of kernels.
  cudaError_t Begin();
  // Records the first failure.
  void Lose(std::string_view why);
  void Check(cudaError_t error) {
    if (error != cudaSuccess) Lose(cudaGetErrorString(error));
  }
  absl::Status Lost();
  void CopyAny(const void* from, void* to, int64_t bytes, cudaMemcpyKind kind) {
    const Use use(*this);
    if (use) Check(cudaMemcpyAsync(to, from, Size(bytes), kind, stream_));
  }

  DeviceLimits limits_;
  CudaMemory memory_;
  cudaStream_t stream_ = nullptr;  // constant except for Restart, as the next
  std::array<cudaEvent_t, kEvents> events_{};
  int64_t resets_ = 0;  // resets of the GPU when these were made

  std::atomic<bool> lost_ = false;
  std::mutex mutex_;  // guards what follows; marks and events ascend together
  std::string failure_;
  int64_t marks_ = 0;
  std::map<void*, int64_t> pinned_;  // bytes
};

void CudaDriver::Lose(std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (!lost_.exchange(true)) failure_ = why;
}

absl::Status CudaDriver::Lost() {
  const std::lock_guard lock(mutex_);
  return MakeError(absl::StatusCode::kUnavailable,
                   StrCat("the device was lost: ", failure_),
                   {.reason = "DEVICE_LOST"});
}

cudaError_t CudaDriver::Begin() {
  cudaError_t error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  for (cudaEvent_t& event : events_) {
    if (error != cudaSuccess) return error;
    error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  // Memory that calls repeatedly allocate and free stays with the process.
  cudaMemPool_t pool = nullptr;
  uint64_t keep = kKeptBytes;
  if (error == cudaSuccess) error = cudaDeviceGetDefaultMemPool(&pool, 0);
  if (error == cudaSuccess) {
    error = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep);
  }
  const auto shared = static_cast<int>(limits_.shared_bytes);
  const auto allow = [&](const void* kernel) {
    if (kernel == nullptr || error != cudaSuccess) return;
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 shared);
  };
  for (int kind = 0; kind < kStepCallKinds; ++kind) {
    allow(OneCallKernel(static_cast<StepCallKind>(kind)));
  }
  allow(WholeStepKernel());
  return error;
}

absl::Status CudaDriver::Open() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    return NoGpu(StrCat("this machine has no GPU that can be used: ",
                        cudaGetErrorString(error)));
  }
  if (count == 0) return NoGpu("this machine has no GPU");
  cudaDeviceProp properties{};
  error = cudaGetDeviceProperties(&properties, 0);
  if (error != cudaSuccess) return NoGpu(cudaGetErrorString(error));
  limits_ = {.name = properties.name,
             .processors = properties.multiProcessorCount,
             .shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin),
             .whole_step_rows = kWholeStepRows};
  if (properties.major < 8) {
    return NoGpu(StrCat(limits_.name, " is of compute capability ", properties.major,
                        ".", properties.minor, ": 8.0 or later is needed"));
  }
  {
    const std::shared_lock lock(TheGpu().mutex);
    resets_ = TheGpu().resets;
  }
  error = Begin();
  if (error != cudaSuccess) return NoGpu(cudaGetErrorString(error));
  if (!memory_.Load()) return NoGpu("its driver is older than CUDA 11.2");
  return absl::OkStatus();
}

CudaDriver::~CudaDriver() {
  const Use use(*this);
  if (!use || stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  cudaStreamDestroy(stream_);
}

int64_t CudaDriver::free_bytes() {
  const Use use(*this);
  size_t left = 0, all = 0;
  if (use) Check(cudaMemGetInfo(&left, &all));
  return static_cast<int64_t>(left);
}

void* CudaDriver::Take(int64_t bytes) {
  const Use use(*this);
  void* memory = nullptr;
  if (!use || cudaMallocAsync(&memory, Size(bytes), stream_) != cudaSuccess) {
    cudaGetLastError();  // out of memory is not a failure of the device
    throw std::bad_alloc();
  }
  return memory;
}

void CudaDriver::GiveBack(void* memory) {
  const Use use(*this);
  if (use) Check(cudaFreeAsync(memory, stream_));
}

char* CudaDriver::TakeAddresses(int64_t bytes) {
  const Use use(*this);
  char* const begin = use ? memory_.Reserve(bytes) : nullptr;
  if (begin == nullptr) throw std::bad_alloc();
  return begin;
}

void CudaDriver::GiveBackAddresses(char* begin) {
  Wait(Mark()).IgnoreError();
  const Use use(*this);
  if (use) memory_.Release(begin);
}

void CudaDriver::Map(char* begin, int64_t bytes) {
  const Use use(*this);
  if (!use || !memory_.Map(begin, bytes, kUnit)) throw std::bad_alloc();
}

void CudaDriver::Unmap(char* begin, int64_t bytes) {
  const Use use(*this);
  if (use) memory_.Unmap(begin, bytes, kUnit);
}

// Registered, not allocated by CUDA: it outlives a reset of the GPU.
void* CudaDriver::TakePinned(int64_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t size = (Size(bytes) + kPage - 1) / kPage * kPage;
  void* const memory = std::aligned_alloc(kPage, size);
  if (memory == nullptr) throw std::bad_alloc();
  memset(memory, 0, size);
  const Use use(*this);
  if (!use || cudaHostRegister(memory, size, cudaHostRegisterDefault) != cudaSuccess) {
    cudaGetLastError();
    std::free(memory);
    throw std::bad_alloc();
  }
  const std::lock_guard lock(mutex_);
  pinned_[memory] = static_cast<int64_t>(size);
  return memory;
}

void CudaDriver::GiveBackPinned(void* memory) {
  {
    const std::lock_guard lock(mutex_);
    MNEMON_CHECK(pinned_.erase(memory) == 1);
  }
  const Use use(*this);
  if (use) Check(cudaHostUnregister(memory));
  std::free(memory);
}

void CudaDriver::Fill(float* to, int64_t count, float value) {
  uint32_t word = 0;
  memcpy(&word, &value, sizeof(word));
  const Use use(*this);
  if (use && !memory_.Fill(to, word, count, stream_)) Check(cudaErrorUnknown);
}

void CudaDriver::Launch(StepKernel kernel, const LaunchShape& shape,
                        const StepLaunch& launch) {
  const bool whole = kernel == StepKernel::kWholeStep;
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = Size(shape.shared_bytes);
  config.attrs = &together;
  config.numAttrs = whole ? 1 : 0;
  void* arguments[] = {const_cast<StepLaunch*>(&launch)};
  const void* const function =
      whole ? WholeStepKernel() : OneCallKernel(launch.call.kind);
  const Use use(*this);
  config.stream = stream_;
  if (use) Check(cudaLaunchKernelExC(&config, function, arguments));
}

void CudaDriver::Launch(const DeviceGraph& graph) {
  const auto& launches = static_cast<const CudaGraph&>(graph);
  const Use use(*this);
  if (use && launches.there()) Check(cudaGraphLaunch(launches.graph(), stream_));
}

void CudaDriver::BeginGraph() {
  const Use use(*this);
  if (use) Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
}

std::unique_ptr<DeviceGraph> CudaDriver::EndGraph() {
  cudaGraphExec_t made = nullptr;
  const Use use(*this);
  if (use) {
    cudaGraph_t graph = nullptr;
    Check(cudaStreamEndCapture(stream_, &graph));
    if (!lost()) Check(cudaGraphInstantiate(&made, graph, 0));
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  return std::make_unique<CudaGraph>(made, resets_);
}

int64_t CudaDriver::Mark() {
  const Use use(*this);
  int64_t mark = 0;
  cudaError_t error = cudaSuccess;
  {
    const std::lock_guard lock(mutex_);
    mark = ++marks_;
    if (use) {
      error = cudaEventRecord(events_[static_cast<size_t>(mark) % kEvents], stream_);
    }
  }
  Check(error);
  return mark;
}

absl::Status CudaDriver::Wait(int64_t mark) {
  const Use use(*this);
  if (use) Check(cudaEventSynchronize(events_[static_cast<size_t>(mark) % kEvents]));
  return lost() ? Lost() : absl::OkStatus();
}

absl::Status CudaDriver::Restart() {
  Gpu& gpu = TheGpu();
  const std::lock_guard alone(gpu.mutex);
  cudaError_t error = cudaSuccess;
  // Another driver may have reset it already.
  if (gpu.resets == resets_) {
    error = cudaDeviceReset();
    ++gpu.resets;
  }
  resets_ = gpu.resets;
  memory_.Forget();
  const std::lock_guard lock(mutex_);
  for (const auto& [memory, bytes] : pinned_) {
    if (error == cudaSuccess) {
      error = cudaHostRegister(memory, Size(bytes), cudaHostRegisterDefault);
    }
  }
  if (error == cudaSuccess) error = Begin();
  if (error != cudaSuccess) {
    failure_ = cudaGetErrorString(error);
    return MakeError(absl::StatusCode::kUnavailable,
                     StrCat("the device stays lost: ", failure_),
                     {.reason = "DEVICE_LOST"});
  }
  lost_ = false;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceDriver>> MakeCudaDriver() {
  auto driver = std::make_unique<CudaDriver>();
  const absl::Status opened = driver->Open();
  if (!opened.ok()) return opened;
  return driver;
}

}  // namespace mnemon
