// SPDX-License-Identifier: MIT
#include "model/device/cuda_driver.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/strings.h"
#include "model/device/cuda_memory.h"
#include "model/kernels/cuda/step_kernels.h"

namespace mnemon {
namespace {

// Up to so many rows a step is one kernel. To be measured on each GPU.
constexpr int64_t kWholeStepRows = 4;

absl::Status NoGpu(std::string_view why) {
  return MakeError(absl::StatusCode::kUnavailable, StrCat("--device cuda: ", why),
                   {.reason = "NO_GPU", .field = "device"});
}

size_t Size(int64_t bytes) { return static_cast<size_t>(bytes); }

class CudaGraph final : public DeviceGraph {
 public:
  // `now` counts restarts of the device; outlives it.
  CudaGraph(cudaGraphExec_t graph, const int64_t& now)
      : graph_(graph), now_(now), made_(now) {}
  ~CudaGraph() override {
    if (there()) cudaGraphExecDestroy(graph_);
  }

  cudaGraphExec_t graph() const { return graph_; }
  // False: there is none, or it was gone with a restart.
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
  // Of marks: one that comes so many later takes an event over, and is behind it.
  static constexpr size_t kEvents = 64;

  // Stream, events and what kernels may use.
  cudaError_t Begin();
  // Notes the first failure.
  void Check(cudaError_t error);
  void CopyAny(const void* from, void* to, int64_t bytes, cudaMemcpyKind kind) {
    if (!lost()) Check(cudaMemcpyAsync(to, from, Size(bytes), kind, stream_));
  }

  DeviceLimits limits_;
  CudaMemory memory_;
  cudaStream_t stream_ = nullptr;  // constant but for Restart, likewise
  std::array<cudaEvent_t, kEvents> events_{};
  int64_t restarts_ = 0;

  std::atomic<bool> lost_ = false;
  std::mutex mutex_;  // guards what follows, and that marks and events rise together
  std::string failure_;
  int64_t marks_ = 0;
  std::map<void*, int64_t> pinned_;  // bytes
};

void CudaDriver::Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  const std::lock_guard lock(mutex_);
  if (lost_.exchange(true)) return;
  failure_ = cudaGetErrorString(error);
}

cudaError_t CudaDriver::Begin() {
  cudaError_t error = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  for (cudaEvent_t& event : events_) {
    if (error != cudaSuccess) return error;
    error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  const auto shared = static_cast<int>(limits_.shared_bytes);
  const auto allow = [&](const void* kernel) {
    if (error != cudaSuccess) return;
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
  if (error != cudaSuccess) return NoGpu(cudaGetErrorString(error));
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
  error = Begin();
  if (error != cudaSuccess) return NoGpu(cudaGetErrorString(error));
  if (!memory_.Load()) return NoGpu("its driver is older than CUDA 11.2");
  return absl::OkStatus();
}

CudaDriver::~CudaDriver() {
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  cudaStreamDestroy(stream_);
}

void* CudaDriver::Take(int64_t bytes) {
  void* memory = nullptr;
  if (lost() || cudaMallocAsync(&memory, Size(bytes), stream_) != cudaSuccess) {
    cudaGetLastError();  // out of memory is not a failure of the device
    throw std::bad_alloc();
  }
  return memory;
}

void CudaDriver::GiveBack(void* memory) {
  if (!lost()) Check(cudaFreeAsync(memory, stream_));
}

char* CudaDriver::TakeAddresses(int64_t bytes) {
  char* const begin = lost() ? nullptr : memory_.Reserve(bytes);
  if (begin == nullptr) throw std::bad_alloc();
  return begin;
}

void CudaDriver::GiveBackAddresses(char* begin) {
  Wait(Mark()).IgnoreError();
  memory_.Release(begin);
}

void CudaDriver::Map(char* begin, int64_t bytes) {
  if (lost() || !memory_.Map(begin, bytes, kUnit)) throw std::bad_alloc();
}

void CudaDriver::Unmap(char* begin, int64_t bytes) {
  memory_.Unmap(begin, bytes, kUnit);
}

// Registered, not allocated by CUDA: it outlives a reset of the device.
void* CudaDriver::TakePinned(int64_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t size = (Size(bytes) + kPage - 1) / kPage * kPage;
  void* const memory = std::aligned_alloc(kPage, size);
  if (memory == nullptr) throw std::bad_alloc();
  memset(memory, 0, size);
  if (lost() ||
      cudaHostRegister(memory, size, cudaHostRegisterDefault) != cudaSuccess) {
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
  if (!lost()) Check(cudaHostUnregister(memory));
  std::free(memory);
}

void CudaDriver::Fill(float* to, int64_t count, float value) {
  uint32_t word = 0;
  memcpy(&word, &value, sizeof(word));
  if (!lost() && !memory_.Fill(to, word, count, stream_)) Check(cudaErrorUnknown);
}

void CudaDriver::Launch(StepKernel kernel, const LaunchShape& shape,
                        const StepLaunch& launch) {
  if (lost()) return;
  const bool whole = kernel == StepKernel::kWholeStep;
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = Size(shape.shared_bytes);
  config.stream = stream_;
  config.attrs = &together;
  config.numAttrs = whole ? 1 : 0;
  void* arguments[] = {const_cast<StepLaunch*>(&launch)};
  const void* const function =
      whole ? WholeStepKernel() : OneCallKernel(launch.call.kind);
  Check(cudaLaunchKernelExC(&config, function, arguments));
}

void CudaDriver::Launch(const DeviceGraph& graph) {
  const auto& launches = static_cast<const CudaGraph&>(graph);
  if (lost() || !launches.there()) return;
  Check(cudaGraphLaunch(launches.graph(), stream_));
}

void CudaDriver::BeginGraph() {
  if (!lost()) {
    Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  }
}

std::unique_ptr<DeviceGraph> CudaDriver::EndGraph() {
  cudaGraphExec_t made = nullptr;
  if (!lost()) {
    cudaGraph_t graph = nullptr;
    Check(cudaStreamEndCapture(stream_, &graph));
    if (!lost()) Check(cudaGraphInstantiate(&made, graph, 0));
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  return std::make_unique<CudaGraph>(made, restarts_);
}

int64_t CudaDriver::Mark() {
  int64_t mark = 0;
  cudaError_t error = cudaSuccess;
  {
    const std::lock_guard lock(mutex_);
    mark = ++marks_;
    if (!lost()) {
      error = cudaEventRecord(events_[static_cast<size_t>(mark) % kEvents], stream_);
    }
  }
  Check(error);
  return mark;
}

absl::Status CudaDriver::Wait(int64_t mark) {
  if (!lost()) {
    Check(cudaEventSynchronize(events_[static_cast<size_t>(mark) % kEvents]));
  }
  if (!lost()) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  return MakeError(absl::StatusCode::kUnavailable,
                   StrCat("the device was lost: ", failure_),
                   {.reason = "DEVICE_LOST"});
}

absl::Status CudaDriver::Restart() {
  cudaError_t error = cudaDeviceReset();
  memory_.Forget();
  ++restarts_;
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
