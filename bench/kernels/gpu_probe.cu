// SPDX-License-Identifier: MIT
// Probe of a GPU, with the results as a Markdown table: reads, multiply-adds, and the
// cost of launching kernels, of synchronising within one, and of transferring a batch
// and tokens. These are the ceilings of a step. C++17, for nvcc.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kThreads = 256;
constexpr int kPasses = 15;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "gpu_probe: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK_CUDA(call) Check(call, #call)

__global__ void Nothing() {}

__global__ void Fill(float4* values, size_t count) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const float value = static_cast<float>(i % 977) * 0.001F;
    values[i] = make_float4(value, -value, value + 1, 1 - value);
  }
}

// Reads all values `rounds` times, four loads in flight. REQUIRES: `count` is a
// multiple of four times the number of threads.
__global__ void Read(const float4* values, size_t count, int rounds, float* sink) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  float4 sum = make_float4(0, 0, 0, 0);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
         i += 4 * stride) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float4 value = __ldcg(values + i + j * stride);
        sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
      }
    }
  }
  if (sum.x + sum.y + sum.z + sum.w == 0.5F) *sink = sum.x;
}

constexpr int kChains = 16;
constexpr int kSteps = 4096;

__global__ void MultiplyAdd(float factor, float* sink) {
  float chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = static_cast<float>(threadIdx.x + i);
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) chain[i] = fmaf(chain[i], factor, 0.5F);
  }
  float sum = 0;
  for (int i = 0; i < kChains; ++i) sum += chain[i];
  if (sum == 0.25F) *sink = sum;
}

__global__ void IntegerDots(int factor, int* sink) {
  int chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = static_cast<int>(threadIdx.x) + i;
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) chain[i] = __dp4a(chain[i], factor, chain[i]);
  }
  int sum = 0;
  for (int i = 0; i < kChains; ++i) sum += chain[i];
  if (sum == 12345) *sink = sum;
}

__global__ void Meetings(int count) {
  const auto grid = cooperative_groups::this_grid();
  for (int i = 0; i < count; ++i) grid.sync();
}

class Probe {
 public:
  Probe() {
    CHECK_CUDA(cudaGetDeviceProperties(&properties_, 0));
    CHECK_CUDA(cudaStreamCreate(&stream_));
    CHECK_CUDA(cudaEventCreate(&begin_));
    CHECK_CUDA(cudaEventCreate(&end_));
    CHECK_CUDA(cudaMalloc(&sink_, sizeof(float)));
  }

  const cudaDeviceProp& properties() const { return properties_; }
  cudaStream_t stream() const { return stream_; }
  float* sink() const { return sink_; }
  int blocks(int per_processor) const {
    return properties_.multiProcessorCount * per_processor;
  }

  // Seconds on the device, the best of several passes.
  template <typename Work>
  double OnDevice(const Work& work) {
    return Best([&] {
      CHECK_CUDA(cudaEventRecord(begin_, stream_));
      work();
      CHECK_CUDA(cudaEventRecord(end_, stream_));
      CHECK_CUDA(cudaEventSynchronize(end_));
      float ms = 0;
      CHECK_CUDA(cudaEventElapsedTime(&ms, begin_, end_));
      return ms * 1e-3;
    });
  }
  // Seconds on the host, until the device is done.
  template <typename Work>
  double OnHost(const Work& work) {
    return Best([&] {
      const auto begin = std::chrono::steady_clock::now();
      work();
      CHECK_CUDA(cudaStreamSynchronize(stream_));
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
    });
  }

 private:
  template <typename Pass>
  double Best(const Pass& pass) {
    pass();
    CHECK_CUDA(cudaGetLastError());
    double best = 1e9;
    for (int i = 0; i < kPasses; ++i) best = std::min(best, pass());
    return best;
  }

  cudaDeviceProp properties_ = {};
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  float* sink_ = nullptr;
};

void Print(const char* what, double value, const char* unit) {
  std::printf("| %s | %.4g %s |\n", what, value, unit);
}

void ProbeReads(Probe& probe) {
  for (const size_t mib : {8, 24, 64, 1024}) {
    const size_t count = (mib << 20) / sizeof(float4);
    float4* values = nullptr;
    CHECK_CUDA(cudaMalloc(&values, count * sizeof(float4)));
    Fill<<<probe.blocks(8), kThreads, 0, probe.stream()>>>(values, count);
    const int rounds = static_cast<int>(std::max<size_t>(2, 4096 / mib));
    double best = 0;
    for (const int per_processor : {1, 2, 3, 4, 6, 8}) {
      const int blocks = probe.blocks(per_processor);
      const size_t turn = size_t{4} * blocks * kThreads;
      const size_t whole = count / turn * turn;
      if (whole == 0) continue;
      const double seconds = probe.OnDevice([&] {
        Read<<<blocks, kThreads, 0, probe.stream()>>>(values, whole, rounds,
                                                      probe.sink());
      });
      best = std::max(best,
                      static_cast<double>(whole * sizeof(float4)) * rounds / seconds);
    }
    char what[64];
    std::snprintf(what, sizeof what, "reads of %zu MiB again and again", mib);
    Print(what, best * 1e-9, "GB/s");
    CHECK_CUDA(cudaFree(values));
  }
}

void ProbeArithmetic(Probe& probe) {
  const int blocks = probe.blocks(8);
  const double operations = 1.0 * blocks * kThreads * kChains * kSteps;
  const double fma = probe.OnDevice([&] {
    MultiplyAdd<<<blocks, kThreads, 0, probe.stream()>>>(1.0001F, probe.sink());
  });
  Print("float32 multiply-adds, two operations each", 2 * operations / fma * 1e-12,
        "TFLOP/s");
  const double dots = probe.OnDevice([&] {
    IntegerDots<<<blocks, kThreads, 0, probe.stream()>>>(
        0x01020304, reinterpret_cast<int*>(probe.sink()));
  });
  Print("dots of four 8-bit integers (dp4a), eight operations each",
        8 * operations / dots * 1e-12, "TOP/s");
}

void ProbeLaunches(Probe& probe) {
  constexpr int kKernels = 256;
  Print("an empty kernel, launched and awaited",
        probe.OnHost([&] { Nothing<<<1, 32, 0, probe.stream()>>>(); }) * 1e6, "us");
  const auto launch_all = [&] {
    for (int i = 0; i < kKernels; ++i) {
      Nothing<<<probe.blocks(1), kThreads, 0, probe.stream()>>>();
    }
  };
  Print("each of 256 kernels in a row", probe.OnHost(launch_all) / kKernels * 1e6,
        "us");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(probe.stream(), cudaStreamCaptureModeGlobal));
  launch_all();
  CHECK_CUDA(cudaStreamEndCapture(probe.stream(), &graph));
  CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  const auto launch_graph = [&] {
    CHECK_CUDA(cudaGraphLaunch(executable, probe.stream()));
  };
  Print("each of 256 kernels of a graph", probe.OnHost(launch_graph) / kKernels * 1e6,
        "us");
  CHECK_CUDA(cudaGraphExecDestroy(executable));
  CHECK_CUDA(cudaGraphDestroy(graph));
}

void ProbeMeetings(Probe& probe) {
  constexpr int kFew = 100, kMany = 1100;
  const auto time = [&](int blocks, int count) {
    void* arguments[] = {&count};
    return probe.OnDevice([&] {
      CHECK_CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(Meetings), blocks,
                                             kThreads, arguments, 0, probe.stream()));
    });
  };
  for (const int blocks : {8, 32, probe.blocks(1), probe.blocks(2)}) {
    char what[64];
    std::snprintf(what, sizeof what, "a meeting of %d blocks of one kernel", blocks);
    Print(what, (time(blocks, kMany) - time(blocks, kFew)) / (kMany - kFew) * 1e6,
          "us");
  }
}

void ProbeCopies(Probe& probe) {
  constexpr size_t kBytes = 4096;
  void *host = nullptr, *device = nullptr;
  CHECK_CUDA(cudaMallocHost(&host, kBytes));
  CHECK_CUDA(cudaMalloc(&device, kBytes));
  Print("4 KiB there, an empty kernel, 4 KiB back, awaited", probe.OnHost([&] {
    CHECK_CUDA(
        cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, probe.stream()));
    Nothing<<<1, 32, 0, probe.stream()>>>();
    CHECK_CUDA(
        cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, probe.stream()));
  }) * 1e6,
        "us");
  CHECK_CUDA(cudaFree(device));
  CHECK_CUDA(cudaFreeHost(host));
}

}  // namespace

int main() {
  Probe probe;
  const cudaDeviceProp& properties = probe.properties();
  std::printf("%s: %d multiprocessors, %d KiB of second-level cache, %.0f GiB\n\n",
              properties.name, properties.multiProcessorCount,
              properties.l2CacheSize >> 10,
              static_cast<double>(properties.totalGlobalMem) / (1 << 30));
  std::printf("| what | best of %d |\n|---|---|\n", kPasses);
  ProbeReads(probe);
  ProbeArithmetic(probe);
  ProbeLaunches(probe);
  ProbeMeetings(probe);
  ProbeCopies(probe);
  return 0;
}
