// SPDX-License-Identifier: MIT
// Steps a checkpoint on one thread, for callgrind to count: count_steps DIR TARGET.
// CountedSteps is the function that counts. No torch, which would take valgrind
// minutes.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/process/process.h"
#include "model/compute/step_options.h"
#include "model/compute/thread_pool.h"
#include "model/families/families.h"
#include "model/io/safetensors.h"
#include "model/operations/cpu_operations.h"
#include "model/program/step_decoder.h"

namespace mnemon {
namespace {

constexpr int kSteps = 10;
constexpr int64_t kContext = 120;

template <class T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "count_steps: %s\n", value.status().ToString().c_str());
  std::exit(1);
}

}  // namespace

__attribute__((noinline)) void CountedSteps(Decoder& decoder, StateArena& arena,
                                            int32_t slot, float* logits, int count) {
  for (int i = 0; i < count; ++i) {
    const int32_t token = i;
    const Segment segment = {
        .slot = slot, .position = arena.length(slot), .tokens = {&token, 1}};
    if (!decoder.Step({&segment, 1}, arena, logits).ok()) std::exit(1);
  }
}

int Run(const std::string& dir, const std::string& target) {
  const ModelConfig config =
      OrDie(ParseConfig(OrDie(ReadFile(dir + "/config.json", 1 << 20))));
  const Safetensors file = OrDie(Safetensors::Read(dir + "/model.safetensors"));
  std::vector<std::vector<float>> floats;
  floats.reserve(file.header().tensors.size());
  TensorViews views;
  for (const TensorInfo& info : file.header().tensors) {
    floats.push_back(OrDie(file.Floats(info)));
    views.push_back(
        {.name = info.name, .shape = info.shape, .data = floats.back().data()});
  }
  ThreadPool pool(1);
  const auto decoder = OrDie(
      MakeStepDecoder(OrDie(DescribeModel(config)), views,
                      {.operations = OrDie(FindCpuOperations(target)), .pool = &pool}));
  const auto arena = OrDie(StateArena::Create(decoder->spec(), {.slots = 1}));
  const int32_t slot = OrDie(arena->Acquire());
  std::vector<float> logits(config.vocab);
  const std::vector<int32_t> prompt(kContext / 2, 1);
  for (int i = 0; i < 2; ++i) {
    const Segment segment = {
        .slot = slot, .position = arena->length(slot), .tokens = prompt};
    if (!decoder->Step({&segment, 1}, *arena, logits.data()).ok()) return 1;
  }
  CountedSteps(*decoder, *arena, slot, logits.data(), kSteps);
  return 0;
}

}  // namespace mnemon

int main(int argc, char** argv) {
  mnemon::InitProcess();
  return argc == 3 ? mnemon::Run(argv[1], argv[2]) : 2;
}
