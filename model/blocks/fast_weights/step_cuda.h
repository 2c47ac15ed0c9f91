// SPDX-License-Identifier: MIT
// FastWeights of calls.h on a device. All threads of a block call it; the block is the
// share's worker. A team of warps computes one head of one run, token by token. Its
// state is read once, held in shared memory, and written after the last token; if there
// is no room for it, it is read and written in place.
//
// Two threads own a column of W^T, one its even and one its odd features; no other
// thread reads or writes these from token to token. C++17.
#pragma once

#include "model/blocks/fast_weights/calls.h"
#include "model/compute/cuda/numbers.h"

namespace mnemon::device {

// Floats of one token: the features of key and query, the value, and three numbers.
inline constexpr int64_t FastWeightTokenFloats(const FastWeightCall& call) {
  return 2 * call.map.features(call.width) + (call.width + 4) / 2 * 2;
}
// Floats of a team without its state: for each warp a token and x' of its key and
// query, and sums of columns.
inline constexpr int64_t FastWeightTeamFloats(const FastWeightCall& call, int team) {
  const int64_t warp = FastWeightTokenFloats(call) + 4 * call.width;
  return (team / kWarp * warp + 8 * call.width + 3) / 4 * 4;
}
// Floats of a head's state.
inline constexpr int64_t FastWeightHeldFloats(const FastWeightCall& call) {
  const int64_t rows = call.width + (call.normaliser_offset < 0 ? 0 : 1);
  return (call.map.features(call.width) * rows + 3) / 4 * 4;
}

// Shared memory of a block in which all teams with a head hold their states. With less,
// fewer teams do; without room for one state, none.
inline constexpr int64_t FastWeightFloats(const FastWeightCall& call, int threads,
                                          int64_t heads) {
  const int team = ColumnTeam(call.width, threads);
  const int64_t teams = threads / team;
  return (teams < heads ? teams : heads) *
         (FastWeightTeamFloats(call, team) + FastWeightHeldFloats(call));
}
// The minimum.
inline constexpr int64_t FastWeightLeastFloats(const FastWeightCall& call,
                                               int threads) {
  return FastWeightTeamFloats(call, ColumnTeam(call.width, threads));
}

class FastWeightUnit {
 public:
  // `shared`: FastWeightTeamFloats. `held`: FastWeightHeldFloats, or null.
  MNEMON_DEVICE FastWeightUnit(const FastWeightCall& call, const FastWeightRun& run,
                               int64_t head, int team, float* shared, float* held)
      : call_(call),
        run_(run),
        head_(head),
        width_(static_cast<int>(call.width)),
        features_(static_cast<int>(call.map.features(call.width))),
        team_(team),
        thread_(ThreadIndex() % team),
        home_(run.fixed + call.state_offset + head * features_ * width_),
        normaliser_home_(call.normaliser_offset < 0
                             ? nullptr
                             : run.fixed + call.normaliser_offset + head * features_),
        holds_(held != nullptr),
        state_(holds_ ? held : home_),
        normaliser_(holds_ ? held + features_ * width_ : normaliser_home_),
        tokens_(shared),
        halves_(tokens_ + Warps() * FastWeightTokenFloats(call)),
        sums_(halves_ + Warps() * 4 * width_) {}

  // Called by a team. Returns NaN if it leaves the state not finite.
  MNEMON_DEVICE float Run() {
    if (holds_) Hold();
    float doubt = 0;
    for (int64_t first = 0; first < run_.count; first += Warps()) {
      const auto some = static_cast<int>(Smaller<int64_t>(Warps(), run_.count - first));
      const int warp = thread_ / kWarp;
      if (warp < some) doubt += SetToken(warp, run_.first + first + warp);
      AwaitCopies();
      TeamBarrier(team_);
      if (normaliser_home_ != nullptr) {
        for (int t = 0; warp == 0 && t < some; ++t) {
          Normalise(TokenAt(t), first + t + 1 == run_.count);
        }
        TeamBarrier(team_);
      }
      for (int t = 0; t < some; ++t) doubt += Add(TokenAt(t), first + t);
      TeamBarrier(team_);  // other tokens, or another state, take the place of these
    }
    return doubt;
  }

 private:
  struct Feature {
    float key, query;
  };
  struct Token {
    Feature* features;  // [N]
    float* value;       // [K]
    float* key_query;   // phi(k).phi(q)
    float* beta;
    float* scale;  // by the normaliser
  };

  MNEMON_DEVICE int Warps() const { return team_ / kWarp; }

  MNEMON_DEVICE Token TokenAt(int t) const {
    float* const at = tokens_ + t * FastWeightTokenFloats(call_);
    float* const value = at + 2 * features_;
    float* const numbers = value + width_;
    return {reinterpret_cast<Feature*>(at), value, numbers, numbers + 1, numbers + 2};
  }

  // Starts to read the state, which is complete after AwaitCopies and a barrier.
  MNEMON_DEVICE void Hold() {
    const int count = features_ * width_;
    int fours = 0;
    if (OnSixteenBytes(home_)) {
      fours = count / 4;
      for (int i = thread_; i < fours; i += team_) {
        CopyAhead(state_ + 4 * i, home_ + 4 * i);
      }
    }
    const int rest = 4 * fours + thread_;
    ReadAhead(
        Mine(count - 4 * fours), [&](int i) { return home_[rest + i * team_]; },
        [&](int i, float number) { state_[rest + i * team_] = number; });
    if (normaliser_home_ == nullptr) return;
    for (int n = thread_; n < features_; n += team_) {
      normaliser_[n] = normaliser_home_[n];
    }
  }
  // How many of `count` items belong to this thread of the team.
  MNEMON_DEVICE int Mine(int count) const {
    return (count - thread_ + team_ - 1) / team_;
  }

  // Computes a token's features; called by a warp: one half makes the features of the
  // key, the other those of the query.
  MNEMON_DEVICE float SetToken(int t, int64_t row) {
    const Token token = TokenAt(t);
    const int64_t from = head_ * call_.head_stride;
    const int half = Lane() / 16;
    SetFeatures((half == 0 ? call_.key : call_.query).row(row) + from,
                halves_ + (2 * t + half) * 2 * width_, &token.features->key + half);
    const float* const value = call_.value.row(row) + from;
    ReadAhead<4>(
        (width_ - Lane() + kWarp - 1) / kWarp,
        [&](int i) { return value[Lane() + i * kWarp]; },
        [&](int i, float number) { token.value[Lane() + i * kWarp] = number; });
    WarpBarrier();
    *token.key_query = HalfSumOf(features_, [&](int64_t n, float sum) {
      return Fma(token.features[n].key, token.features[n].query, sum);
    });
    if (call_.beta.data != nullptr) *token.beta = call_.beta.row(row)[head_];
    // A feature that is not finite is NaN, and so is its product with any other.
    return NotFinite(*token.key_query);
  }

  // phi(x) [N] of x [K], by half a warp. Consecutive features are two floats apart.
  MNEMON_DEVICE void SetFeatures(const float* x, float* halves, float* out) const {
    if (call_.map.elu) return SetEluPlusOne(x, out);
    const int lane = Lane() % 16, wide = 2 * width_;
    ReadAhead<4>((width_ - lane + 15) / 16, [&](int n) { return x[lane + 16 * n]; },
                 [&](int n, float plus) {
                   const float minus = 0.0f - plus;
                   halves[lane + 16 * n] = plus < 0.0f ? 0.0f : plus;
                   halves[width_ + lane + 16 * n] = minus < 0.0f ? 0.0f : minus;
                 });
    WarpBarrier();
    const auto nu = static_cast<int>(call_.map.nu);
    const auto product = [&](int j, int shift) {
      const int other = j - shift;
      return halves[j] * halves[other < 0 ? other + wide : other];
    };
    float part = 0;
    for (int i = 1; i <= nu; ++i) {
      const int shift = i % wide;
      for (int j = lane; j < wide; j += 16) part += product(j, shift);
    }
    const float scale = Divide(1.0f, HalfSum(part) + 1e-6f);
    for (int i = 1; i <= nu; ++i, out += 2 * wide) {
      const int shift = i % wide;
      for (int j = lane; j < wide; j += 16) {
        out[2 * j] = Flushed(product(j, shift) * scale);
      }
    }
  }

  MNEMON_DEVICE void SetEluPlusOne(const float* x, float* out) const {
    const int lane = Lane() % 16;
    float part = 0;
    ReadAhead<4>((width_ - lane + 15) / 16, [&](int n) { return x[lane + 16 * n]; },
                 [&](int n, float value) {
                   const float p = value < 0.0f ? Exp(value) : value + 1.0f;
                   out[2 * (lane + 16 * n)] = p;
                   part += p;
                 });
    const float scale = Divide(1.0f, HalfSum(part) + 1e-6f);
    for (int j = lane; j < width_; j += 16) out[2 * j] = Flushed(out[2 * j] * scale);
  }

  // Called by a warp, token by token.
  MNEMON_DEVICE void Normalise(const Token& token, bool last) {
    for (int n = Lane(); n < features_; n += kWarp) {
      const float sum = Flushed(normaliser_[n] + token.features[n].key);
      normaliser_[n] = sum;
      if (last) normaliser_home_[n] = sum;
    }
    WarpBarrier();
    const float sum = HalfSumOf(features_, [&](int64_t n, float part) {
      return Fma(normaliser_[n], token.features[n].query, part);
    });
    *token.scale = Divide(1.0f, sum + 1e-6f);
    WarpBarrier();
  }

  // Adds token `number` of the run. Returns NaN if a change is not finite.
  MNEMON_DEVICE float Add(const Token& token, int64_t number) {
    // The sums of a token stay until all threads have begun the token after the next.
    float* const sums = sums_ + number % 2 * 4 * width_;
    EachColumn([&](int column, int odd) {
      float old = 0, read = 0;
      EachFeature(state_, column, odd, [&](int n, float weight) {
        old = Fma(token.features[n].key, weight, old);
        read = Fma(token.features[n].query, weight, read);
      });
      sums[odd * width_ + column] = old;
      sums[(2 + odd) * width_ + column] = read;
    });
    TeamBarrier(team_);
    float doubt = 0;
    const bool last = number + 1 == run_.count;
    EachColumn([&](int column, int odd) {
      const float* const sum = sums + column;
      float change = token.value[column];
      if (call_.beta.data != nullptr)
        change = *token.beta * (change - (sum[0] + sum[width_]));
      doubt += NotFinite(change * kMostChange);
      if (odd == 0) {
        // W_new phi(q) = W phi(q) + change (phi(k).phi(q))
        float result =
            Flushed(Fma(change, *token.key_query, sum[2 * width_] + sum[3 * width_]));
        if (normaliser_home_ != nullptr) result = Flushed(result * *token.scale);
        call_.out.row(run_.first + number)[head_ * width_ + column] = result;
      }
      float* const to = last ? home_ : state_;
      EachFeature(state_, column, odd, [&](int n, float weight) {
        to[n * width_ + column] = Flushed(Fma(change, token.features[n].key, weight));
      });
    });
    return doubt;
  }

  // Calls one(column, 0 for its even features or 1 for its odd ones).
  template <class One>
  MNEMON_DEVICE void EachColumn(const One& one) const {
    for (int i = thread_; i < 2 * width_; i += team_) {
      const int odd = i < width_ ? 0 : 1;
      one(i - odd * width_, odd);
    }
  }
  // Calls use(n, W_n) for the thread's features n in ascending order.
  template <class Use>
  MNEMON_DEVICE void EachFeature(const float* state, int column, int odd,
                                 const Use& use) const {
    ReadAhead(
        features_ / 2, [&](int i) { return state[(2 * i + odd) * width_ + column]; },
        [&](int i, float weight) { use(2 * i + odd, weight); });
  }

  const FastWeightCall& call_;
  const FastWeightRun run_;
  const int64_t head_;
  const int width_, features_, team_, thread_;
  float* const home_;  // address of the state in global memory
  float* const normaliser_home_;
  const bool holds_;
  float* const state_;
  float* const normaliser_;
  float* const tokens_;
  float* const halves_;  // [warps][2][2 K]
  float* const sums_;    // [2][old, read][even, odd][K]
};

// Sets a bit of *wrong if states are not left finite, see FastWeightCall. REQUIRES: at
// least FastWeightLeastFloats of `shared`.
MNEMON_DEVICE void FastWeights(const FastWeightCall& call, Share share,
                               const SharedFloats& shared, uint32_t* wrong) {
  const int team = ColumnTeam(call.width, ThreadCount());
  const int64_t apart = FastWeightTeamFloats(call, team);
  const int64_t state = FastWeightHeldFloats(call);
  const bool holds = shared.count >= apart + state;
  const int64_t floats = apart + (holds ? state : 0);
  const int64_t teams = Smaller<int64_t>(ThreadCount() / team, shared.count / floats);
  const int index = ThreadIndex() / team;
  if (index >= teams) return;
  float* const own = shared.data + index * floats;
  const int64_t units = call.runs * call.heads, end = share.end(units);
  float doubt = 0;
  for (int64_t unit = share.begin(units) + index; unit < end; unit += teams) {
    doubt += FastWeightUnit(call, call.run[unit / call.heads],
                            call.first_head + unit % call.heads, team,
                            holds ? own + state : own, holds ? own : nullptr)
                 .Run();
  }
  if (!(doubt == 0.0f)) AtomicOr(wrong, 1);
}

}  // namespace mnemon::device
