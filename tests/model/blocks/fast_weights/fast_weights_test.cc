// SPDX-License-Identifier: MIT
#include <array>

#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

struct FastWeightOptions {
  int64_t heads = 2, width = 16, nu = 1;  // nu 0: ELU + 1
  bool delta = true, normalise = false;

  FeatureMap map() const { return {.nu = nu, .elu = nu == 0}; }
};

// Two sessions, whose tokens are given in pieces.
class Sessions {
 public:
  static constexpr int64_t kTokens = 12;

  explicit Sessions(const FastWeightOptions& options, int64_t tokens = kTokens)
      : options_(options), tokens_(tokens) {
    const int64_t row = options.heads * options.width;
    const int64_t features = options.map().features(options.width);
    query_ = Drawn(2 * tokens_ * row, 1);
    key_ = Drawn(2 * tokens_ * row, 2);
    value_ = Drawn(2 * tokens_ * row, 3);
    for (float beta : Drawn(2 * tokens_ * options.heads, 4)) {
      beta_.push_back(0.5f + beta / 2);
    }
    for (int s = 0; s < 2; ++s) {
      fixed_[s] = Drawn(options.heads * features * options.width, 5 + s);
      for (float z : Drawn(options.heads * features, 7 + s)) {
        fixed_[s].push_back(1 + std::abs(z));
      }
    }
    out_.assign(2 * tokens_ * row, kNotANumber);
  }

  enum Input { kQuery, kKey, kValue };
  std::vector<float>& input(Input which) {
    return which == kQuery ? query_ : which == kKey ? key_ : value_;
  }

  // The next `counts[s]` tokens of each session, after those already computed. Whether
  // the states stay finite.
  bool Feed(const CpuOperations& operations, std::array<int64_t, 2> counts,
            int workers = 1) {
    const int64_t row = options_.heads * options_.width;
    std::vector<FastWeightRun> runs;
    for (int s = 0; s < 2; ++s) {
      if (counts[s] == 0) continue;
      runs.push_back({.first = s * tokens_ + fed_[s],
                      .count = counts[s],
                      .fixed = fixed_[s].data()});
      fed_[s] += counts[s];
    }
    FastWeightCall call = {.heads = options_.heads,
                           .width = options_.width,
                           .map = options_.map(),
                           .runs = static_cast<int64_t>(runs.size()),
                           .run = runs.data(),
                           .query = {query_.data(), row},
                           .key = {key_.data(), row},
                           .value = {value_.data(), row},
                           .head_stride = options_.width,
                           .out = {out_.data(), row}};
    if (options_.normalise) {
      call.normaliser_offset =
          options_.heads * options_.map().features(options_.width) * options_.width;
    }
    if (options_.delta) call.beta = {beta_.data(), options_.heads};
    std::vector<float> scratch(ScratchFloats(call));
    bool finite = true;
    for (int w = 0; w < workers; ++w) {
      finite = operations.fast_weights(call, {w, workers}, scratch.data()) && finite;
    }
    return finite;
  }

  std::vector<float>& state(int s) { return fixed_[s]; }
  std::vector<float> output(int64_t row) const {
    const int64_t width = options_.heads * options_.width;
    return {out_.begin() + row * width, out_.begin() + (row + 1) * width};
  }

  // Outputs, then both states.
  std::vector<float> Result() const {
    std::vector<float> all = out_;
    for (int s = 0; s < 2; ++s) {
      all.insert(all.end(), fixed_[s].begin(), fixed_[s].end());
    }
    return all;
  }

 private:
  const FastWeightOptions options_;
  const int64_t tokens_;
  std::vector<float> query_, key_, value_, beta_, out_;
  std::array<std::vector<float>, 2> fixed_;
  std::array<int64_t, 2> fed_ = {};
};

std::vector<FastWeightOptions> AllFastWeightOptions() {
  std::vector<FastWeightOptions> all;
  for (const int64_t width : {1, 4, 16, 20, 32, 40, 64}) {
    for (const int64_t nu : {0, 1, 2, 3}) {
      if (nu == 0 && width % 2 == 1) continue;
      for (int bits = 0; bits < 4; ++bits) {
        all.push_back({.heads = 1 + width % 3,
                       .width = width,
                       .nu = nu,
                       .delta = (bits & 1) != 0,
                       .normalise = (bits & 2) != 0});
      }
    }
  }
  return all;
}

using FastWeightsTest = TargetTest;

TEST_P(FastWeightsTest, SaysWhetherStatesStayFinite) {
  std::vector<const CpuOperations*> all = {&target()};
  const bool first = GetParam() == TargetsUnderTest().front();
  if (first) all.push_back(&reference());
  for (const CpuOperations* operations : all) {
    for (const FastWeightOptions& options : AllFastWeightOptions()) {
      if (!first && options.width > 16) continue;
      const auto finite = [&](Sessions::Input which, float number, size_t at) {
        Sessions sessions(options);
        sessions.input(which)[at] = number;
        return sessions.Feed(*operations, {Sessions::kTokens, Sessions::kTokens}, 2);
      };
      const size_t last = 2 * Sessions::kTokens * options.heads * options.width - 1;
      for (const size_t at : {size_t{0}, last}) {
        EXPECT_TRUE(finite(Sessions::kValue, 1e15f, at));
        for (const auto which : {Sessions::kQuery, Sessions::kKey, Sessions::kValue}) {
          EXPECT_FALSE(finite(which, kNotANumber, at));
          EXPECT_FALSE(finite(which, HUGE_VALF, at));
        }
        EXPECT_FALSE(finite(Sessions::kValue, -0x1p80f, at));
        if (options.delta) continue;
        EXPECT_FALSE(finite(Sessions::kValue, kMostChange, at));
        EXPECT_TRUE(finite(Sessions::kValue, std::nextafter(kMostChange, 0.0f), at));
      }
    }
  }
}

// The largest changes that are allowed add nothing to the largest numbers.
TEST_P(FastWeightsTest, AllowedChangesNeverOverflow) {
  const FastWeightOptions options{.heads = 1, .width = 1, .nu = 1, .delta = false};
  Sessions sessions(options);
  for (float& value : sessions.input(Sessions::kValue)) {
    value = std::nextafter(kMostChange, 0.0f);
  }
  sessions.state(0)[0] = sessions.state(0)[1] = std::numeric_limits<float>::max();
  EXPECT_TRUE(sessions.Feed(target(), {Sessions::kTokens, Sessions::kTokens}));
  EXPECT_EQ(sessions.state(0)[0], std::numeric_limits<float>::max());
}

TEST_P(FastWeightsTest, AgreesWithTheReference) {
  for (const FastWeightOptions& options : AllFastWeightOptions()) {
    const auto result = [&](const CpuOperations& operations) {
      Sessions sessions(options);
      sessions.Feed(operations, {Sessions::kTokens, 5});
      std::vector<float> all = sessions.Result();
      // Tokens that are not computed stay as they were.
      for (float& f : all) f = std::isnan(f) ? 0.0f : f;
      return all;
    };
    const std::vector<float> found = result(target());
    EXPECT_LE(Difference(found, result(reference())), 1e-5)
        << "width " << options.width << " nu " << options.nu;
    EXPECT_EQ(found, result(best()))
        << "width " << options.width << " nu " << options.nu;
  }
}

TEST_P(FastWeightsTest, ManyTokensAtOnce) {
  constexpr int64_t kMany = kMaxChunk;
  for (const FastWeightOptions& options : AllFastWeightOptions()) {
    if (options.width != 20 && options.width != 64) continue;
    if (emulated() && options.width * options.nu > 64) continue;
    Sessions found(options, kMany), expected(options, kMany);
    found.Feed(target(), {kMany, kMany - 3});
    expected.Feed(best(), {kMany, kMany - 3});
    EXPECT_EQ(found.state(0), expected.state(0)) << "width " << options.width;
    EXPECT_EQ(found.state(1), expected.state(1)) << "width " << options.width;
    EXPECT_EQ(found.output(kMany - 1), expected.output(kMany - 1));
    EXPECT_EQ(found.output(2 * kMany - 4), expected.output(2 * kMany - 4));
  }
}

TEST_P(FastWeightsTest, SameBitsInAnySplitAndWithAnyWorkers) {
  for (const FastWeightOptions& options : AllFastWeightOptions()) {
    if (emulated() && options.width > 40) continue;
    Sessions whole(options);
    whole.Feed(target(), {Sessions::kTokens, Sessions::kTokens});
    for (const int workers : {1, 3}) {
      Sessions pieces(options);
      for (int64_t t = 0; t < Sessions::kTokens; ++t) {
        pieces.Feed(target(), {1, t == 0 ? Sessions::kTokens : 0}, workers);
      }
      ASSERT_EQ(pieces.Result(), whole.Result()) << "width " << options.width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FastWeightsTest,
                         testing::ValuesIn(TargetsUnderTest()), TargetName);

}  // namespace
}  // namespace mnemon
