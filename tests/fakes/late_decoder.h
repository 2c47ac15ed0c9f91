// SPDX-License-Identifier: MIT
// A decoder on a device, which a LateThread stands for. Its states lie in FarMemory. A
// step is computed when it is waited for or, at random, at once. It draws tokens, and
// fails as its options say.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "model/decoder/decoder.h"
#include "model/sampling/penalty_counts.h"
#include "model/sampling/sampler.h"
#include "tests/fakes/far_memory.h"
#include "tests/fakes/late_thread.h"

namespace mnemon {

class LateDecoder final : public Decoder {
 public:
  // 0: never.
  struct Options {
    uint32_t seed = 0;
    bool some_at_once = false;
    // One step in this many fails, when it is submitted or later.
    uint32_t out_of_memory = 0;
    uint32_t non_finite = 0;
    uint32_t lost = 0;
    uint32_t failed_restarts = 0;  // before one succeeds
  };

  // `decoder` computes the steps and must outlive this. Rows of its states are
  // contiguous.
  LateDecoder(Decoder& decoder, const Options& options);

  const ModelDescription& model() const override { return decoder_.model(); }
  const StateSpec& spec() const override { return decoder_.spec(); }
  const std::string& numerics_id() const override { return decoder_.numerics_id(); }
  int64_t weight_bytes() const override { return decoder_.weight_bytes(); }
  int most_under_way() const override { return 2; }
  bool draws() const override { return true; }
  std::unique_ptr<StateMemory> MakeStateMemory() override;
  absl::Status Submit(std::span<const Segment> segments, StateArena& arena,
                      float* logits) override;
  absl::Status Complete(std::span<int32_t> drawn) override;
  absl::Status BeginDraws(int32_t slot, const SamplingParams& params,
                          std::span<const int32_t> window) override;
  void EndDraws(int32_t slot) override;
  absl::Status Restart() override;
  absl::Status Import(int64_t position, const TensorViews& carry, StateArena& arena,
                      int32_t slot) override;

  // Any thread: the device is lost with the next step.
  void LoseDevice() { lose_ = true; }

  // Numbers of events so far; called on its user's thread, or when it is not in use.
  int64_t failed() const { return failed_; }
  int64_t lost() const { return times_lost_; }
  // Steps submitted while another was not complete.
  int64_t ahead() const { return ahead_; }
  // Slots for which BeginDraws was called last.
  size_t drawing() const { return drawing_.size(); }

 private:
  // What a device needs to know of a segment: addresses, but nothing of the arena.
  struct Part {
    Segment segment;
    std::vector<int32_t> tokens;
    std::vector<float*> blocks;  // from `base` on
    int64_t base = 0;
    float* fixed = nullptr;
  };
  enum class Fault { kNone, kOutOfMemory, kNonFinite, kLost };
  struct Step {
    int64_t number = 0;
    std::vector<Part> parts;
    StateArena* arena = nullptr;
    BlockCopies copies;
    float* logits = nullptr;
    Fault fault = Fault::kNone;
    // Drawn by the thread.
    std::vector<int32_t> drawn;
    absl::Status status;
    std::exception_ptr thrown;
  };
  struct Draws {
    SamplingParams params;
    PenaltyCounts counts;
    std::vector<int32_t> window;  // and what was drawn
    int32_t last = 0;
  };

  // True once in this many calls.
  bool Chance(uint32_t one_in);
  Fault PickFault();
  absl::Status Lose();
  // Drops all steps under way.
  void DropSteps();
  absl::Status Reserve(std::span<const Segment> segments, StateArena& arena,
                       BlockCopies& copies);

  // On the thread.
  void Compute(Step& step);
  absl::Status ComputeParts(Step& step);
  void Load(const Part& part, int32_t slot);
  void Store(const Part& part, int32_t slot);
  // Damages the states of a step, so that nobody can continue from them.
  void Damage(Step& step);
  void Draw(const Part& part, std::span<float> logits, std::vector<int32_t>& drawn);
  // Address of a row of an entry, or of a fixed entry.
  float* RowOf(const Part& part, size_t entry, int64_t position);
  float* Near(float* far, int64_t count);

  Decoder& decoder_;
  const Options options_;
  std::atomic<bool> lose_ = false;
  // Used by the user's thread.
  std::mt19937 random_;
  std::deque<std::unique_ptr<Step>> steps_;  // under way
  std::map<int32_t, bool> drawing_;
  bool is_lost_ = false;
  uint32_t restarts_failed_ = 0;
  int64_t failed_ = 0;
  int64_t times_lost_ = 0;
  int64_t ahead_ = 0;

  // Used by the thread, and by its user while that waits for it.
  FarMemory* memory_ = nullptr;
  std::unique_ptr<StateArena> arena_;  // in which decoder_ computes
  std::vector<int32_t> slots_;         // of it
  SamplerScratch scratch_;
  std::map<int32_t, Draws> draws_;  // by slot
  bool broken_ = false;             // a step failed: later ones are not computed
  bool dead_ = false;               // the device is lost

  LateThread thread_;  // last: its work uses the rest
};

}  // namespace mnemon
