// SPDX-License-Identifier: MIT
#include "tests/fakes/device/device_emulator.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/compute/cuda/device.h"
#include "tests/fakes/device/fiber.h"

namespace mnemon {
namespace {

enum class Wait { kNothing, kGrid, kBlock, kTeam, kWarp, kShuffle, kBallot, kProduct };

constexpr const char* NameOf(Wait wait) {
  return wait == Wait::kGrid      ? "a barrier of the grid"
         : wait == Wait::kBlock   ? "a barrier of the block"
         : wait == Wait::kTeam    ? "a barrier of the team"
         : wait == Wait::kWarp    ? "a barrier of the warp"
         : wait == Wait::kShuffle ? "a shuffle"
         : wait == Wait::kBallot  ? "a ballot"
         : wait == Wait::kProduct ? "a product of bytes"
                                  : "nothing";
}

// What a lane gives to a product of bytes, where its registers are.
struct Bytes {
  const uint32_t* a = nullptr;
  const int32_t* b = nullptr;
  int32_t* sum = nullptr;
};

// splitmix64 (Steele, Lea, Flood 2014): a draw is a few instructions, as there is one
// for each change of threads.
struct Draws {
  using result_type = uint64_t;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  uint64_t operator()() {
    uint64_t x = at += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  // Below `most`, which is at most 2^32.
  uint64_t Below(uint64_t most) { return ((*this)() >> 32) * most >> 32; }

  uint64_t at;
};

struct Thread {
  int block = 0;
  int index = 0;
  Wait wait = Wait::kNothing;
  int line = 0;        // of the code, where it waits
  int together = 0;    // threads that wait for each other there
  uint64_t value = 0;  // of a shuffle or ballot: given, then received
  int lane = 0;        // whose is wanted
  Bytes bytes;
  std::vector<std::pair<void*, const void*>> copies;  // to and from, 16 bytes each
  std::unique_ptr<Fiber> fiber;
};

class Emulation {
 public:
  Emulation(const DeviceLaunch& launch, uint64_t seed,
            const std::function<void()>& kernel);

  void Run();

  // Emulation of the running thread.
  static Emulation& current() { return *current_; }
  const DeviceLaunch& launch() const { return launch_; }
  Thread& thread() { return *running_; }
  void* shared() { return shared_[static_cast<size_t>(running_->block)].get(); }
  void Meet(Wait wait, int line, int together = device::kWarp);
  uint64_t Draw(uint64_t most) { return random_.Below(most); }

 private:
  static FiberStacks& Stacks(size_t count);

  // Looks whether all that a thread waits for have come.
  void Meeting(Thread& thread);
  // Lets a group of threads go on where all of it waits for the same.
  void Release(Thread* first, int count);
  void LetGo(Thread* first, int count);
  // What is wrong with a thread that met the running one elsewhere.
  std::string Elsewhere(const Thread& thread) const;
  [[noreturn]] void Stuck() const;

  static thread_local Emulation* current_;

  const DeviceLaunch launch_;
  Draws random_;
  // A warp goes on, as a rule, for as long as it can, while others have not begun.
  const bool far_ahead_ = random_.Below(2) == 0;
  std::vector<std::unique_ptr<char[]>> shared_;
  std::vector<Thread> threads_;
  std::vector<Thread*> ready_;
  Thread* running_ = nullptr;
  size_t at_grid_ = 0;      // threads that wait for the grid
  Thread* slow_ = nullptr;  // the others mostly go before it
};

thread_local Emulation* Emulation::current_ = nullptr;

FiberStacks& Emulation::Stacks(size_t count) {
  static thread_local std::unique_ptr<FiberStacks> stacks;
  if (stacks == nullptr || stacks->count() < count)
    stacks = std::make_unique<FiberStacks>(count);
  return *stacks;
}

Emulation::Emulation(const DeviceLaunch& launch, uint64_t seed,
                     const std::function<void()>& kernel)
    : launch_(launch), random_(seed) {
  MNEMON_CHECK(current_ == nullptr);  // whose stacks these would be
  MNEMON_CHECK(launch.blocks > 0 && launch.threads > 0);
  MNEMON_CHECK(launch.threads % device::kWarp == 0);
  for (int b = 0; b < launch.blocks; ++b) {
    const auto bytes = static_cast<size_t>(launch.shared_bytes);
    shared_.push_back(std::unique_ptr<char[]>(new char[bytes]));
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
      const uint64_t word = random_();
      memcpy(&shared_.back()[i], &word, std::min(sizeof(word), bytes - i));
    }
  }
  const auto count = static_cast<size_t>(launch.blocks * launch.threads);
  FiberStacks& stacks = Stacks(count);
  threads_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Thread& thread = threads_[i];
    thread.block = static_cast<int>(i) / launch.threads;
    thread.index = static_cast<int>(i) % launch.threads;
    thread.fiber = std::make_unique<Fiber>(
        stacks.Clean(i),
        [](void* run) { (*static_cast<const std::function<void()>*>(run))(); },
        const_cast<std::function<void()>*>(&kernel));
    if (thread.index == 0) LetGo(&thread, launch.threads);
  }
}

void Emulation::Run() {
  size_t ended = 0;
  while (!ready_.empty()) {
    // Mostly one of those that were let go last, so that warps run ahead of others.
    const bool any = random_.Below(far_ahead_ ? 64 : 4) == 0;
    const size_t last = far_ahead_ ? 1 : device::kWarp;
    const size_t among = any ? ready_.size() : std::min(ready_.size(), last);
    std::swap(ready_[ready_.size() - 1 - random_.Below(among)], ready_.back());
    if (random_.Below(4096) == 0) slow_ = &threads_[random_.Below(threads_.size())];
    if (ready_.back() == slow_)
      std::swap(ready_[random_.Below(ready_.size())], ready_.back());
    running_ = ready_.back();
    ready_.pop_back();
    current_ = this;
    running_->fiber->Resume();
    current_ = nullptr;
    if (running_->fiber->ended()) {
      ++ended;
      continue;
    }
    Meeting(*running_);
  }
  if (ended < threads_.size()) Stuck();
}

void Emulation::Meeting(Thread& thread) {
  if (thread.wait == Wait::kGrid) {
    // Only the last one has to look at all.
    if (++at_grid_ < threads_.size()) return;
    at_grid_ = 0;
    return Release(threads_.data(), static_cast<int>(threads_.size()));
  }
  Release(&thread - thread.index % thread.together, thread.together);
}

// As MultiplyBytes says.
void Multiply(Thread* lanes) {
  const auto byte = [](uint32_t word, int k) {
    return static_cast<uint8_t>(word >> (8 * (k % 4)));
  };
  for (int lane = 0; lane < device::kWarp; ++lane) {
    for (int n = 0; n < 4; ++n) {
      const int row = lane / 4, column = 2 * (lane % 4) + n % 2;
      for (int k = 0; k < 32; ++k) {
        const int quad = k % 16 / 4, half = k / 16;
        const uint32_t a = lanes[4 * row + quad].bytes.a[2 * half + n / 2];
        const int32_t b = lanes[4 * column + quad].bytes.b[half];
        lanes[lane].bytes.sum[n] +=
            byte(a, k) * static_cast<int8_t>(byte(static_cast<uint32_t>(b), k));
      }
    }
  }
}

void Emulation::Release(Thread* first, int count) {
  const Wait wait = running_->wait;
  for (int i = 0; i < count; ++i) {
    if (first[i].wait != wait || first[i].together != count) return;
  }
  for (int i = 0; i < count; ++i) {
    if (first[i].line != running_->line) throw std::logic_error(Elsewhere(first[i]));
  }
  if (wait == Wait::kShuffle) {
    uint64_t given[device::kWarp];
    for (int i = 0; i < count; ++i) given[i] = first[i].value;
    for (int i = 0; i < count; ++i)
      first[i].value = given[first[i].lane & (device::kWarp - 1)];
  }
  if (wait == Wait::kBallot) {
    uint64_t votes = 0;
    for (int i = 0; i < count; ++i) votes |= first[i].value << i;
    for (int i = 0; i < count; ++i) first[i].value = votes;
  }
  if (wait == Wait::kProduct) Multiply(first);
  LetGo(first, count);
}

void Emulation::LetGo(Thread* first, int count) {
  const int warps = count / device::kWarp;
  const auto last = static_cast<int>(random_.Below(static_cast<uint64_t>(warps)));
  for (int w = 1; w <= warps; ++w) {
    Thread* const warp = first + (last + w) % warps * device::kWarp;
    for (int i = 0; i < device::kWarp; ++i) {
      warp[i].wait = Wait::kNothing;
      ready_.push_back(&warp[i]);
    }
    if (far_ahead_) std::shuffle(ready_.end() - device::kWarp, ready_.end(), random_);
  }
}

std::string PlaceOf(const Thread& thread) {
  return "thread " + std::to_string(thread.index) + " of block " +
         std::to_string(thread.block) + " waits at " + NameOf(thread.wait) +
         " of line " + std::to_string(thread.line);
}

std::string Emulation::Elsewhere(const Thread& thread) const {
  return PlaceOf(thread) + ", where another one waits at line " +
         std::to_string(running_->line);
}

void Emulation::Stuck() const {
  const auto waiting = std::ranges::find_if(
      threads_, [](const Thread& thread) { return !thread.fiber->ended(); });
  throw std::logic_error(PlaceOf(*waiting) + ", where others never come");
}

void Emulation::Meet(Wait wait, int line, int together) {
  running_->wait = wait;
  running_->line = line;
  running_->together = together;
  running_->fiber->Pause();
}

template <class Word>
Word ShuffleWord(Word value, int lane, int line) {
  static_assert(sizeof(Word) <= sizeof(uint64_t));
  Thread& thread = Emulation::current().thread();
  memcpy(&thread.value, &value, sizeof(value));
  thread.lane = lane;
  Emulation::current().Meet(Wait::kShuffle, line);
  memcpy(&value, &thread.value, sizeof(value));
  return value;
}

}  // namespace

void RunOnDevice(const DeviceLaunch& launch, uint64_t seed,
                 const std::function<void()>& kernel) {
  Emulation(launch, seed, kernel).Run();
}

namespace device {

int ThreadIndex() { return Emulation::current().thread().index; }
int ThreadCount() { return Emulation::current().launch().threads; }
int BlockIndex() { return Emulation::current().thread().block; }
int BlockCount() { return Emulation::current().launch().blocks; }
void* SharedMemory() { return Emulation::current().shared(); }
void Barrier(int line) { Emulation::current().Meet(Wait::kBlock, line, ThreadCount()); }
void TeamBarrier(int threads, int line) {
  MNEMON_CHECK(threads % kWarp == 0 && ThreadIndex() / threads < kMostTeams);
  MNEMON_CHECK((ThreadIndex() / threads + 1) * threads <= ThreadCount());
  Emulation::current().Meet(Wait::kTeam, line, threads);
}
void WarpBarrier(int line) { Emulation::current().Meet(Wait::kWarp, line); }
void GridBarrier(int line) {
  Emulation::current().Meet(Wait::kGrid, line, BlockCount() * ThreadCount());
}
float Shuffle(float value, int lane, int line) {
  return ShuffleWord(value, lane, line);
}
int32_t Shuffle(int32_t value, int lane, int line) {
  return ShuffleWord(value, lane, line);
}
uint32_t AtomicOr(uint32_t* to, uint32_t bits) {
  return std::exchange(*to, *to | bits);
}
uint64_t Shuffle(uint64_t value, int lane, int line) {
  return ShuffleWord(value, lane, line);
}
uint32_t Ballot(bool yes, int line) {
  Thread& thread = Emulation::current().thread();
  thread.value = yes ? 1 : 0;
  Emulation::current().Meet(Wait::kBallot, line);
  return static_cast<uint32_t>(thread.value);
}
uint32_t AtomicAdd(uint32_t* to, uint32_t more) {
  return std::exchange(*to, *to + more);
}
uint32_t AtomicExchange(uint32_t* at, uint32_t value) {
  return std::exchange(*at, value);
}

// Copies at once, or as late as possible.
void CopyAhead(void* shared, const void* global) {
  MNEMON_CHECK(reinterpret_cast<uintptr_t>(shared) % 16 == 0);
  MNEMON_CHECK(reinterpret_cast<uintptr_t>(global) % 16 == 0);
  if (Emulation::current().Draw(2) == 0) {
    memcpy(shared, global, 16);
  } else {
    Emulation::current().thread().copies.emplace_back(shared, global);
  }
}
void AwaitCopies() {
  auto& copies = Emulation::current().thread().copies;
  for (const auto& [to, from] : copies) memcpy(to, from, 16);
  copies.clear();
}

void MultiplyBytes(const uint32_t (&a)[4], const int32_t (&b)[2], int32_t (&sum)[4],
                   int line) {
  Thread& thread = Emulation::current().thread();
  thread.bytes = {a, b, sum};
  Emulation::current().Meet(Wait::kProduct, line);
}

}  // namespace device
}  // namespace mnemon
