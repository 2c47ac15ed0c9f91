// SPDX-License-Identifier: MIT
// The hand-written passes of every variant of every architecture that has one.
#include "model/gradient/gradient_pass.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "model/families/families.h"
#include "tests/model/decoder/variants.h"
#include "tests/model/description/random_descriptions.h"

namespace mnemon {
namespace {

constexpr int64_t kBatch = 5;
// Seed of weights for which float32 is well-conditioned: no pre-activation so near 0
// that rounding determines its sign, no sum of features near the 1e-6 that is added to
// it.
constexpr uint64_t kSeed = 6;

// The weights of a model in a flat buffer.
struct Flat {
  struct Weight {
    std::string name;
    int64_t begin, size;
  };
  std::vector<Weight> weights;
  FlatLayout layout;
  int64_t size = 0;
};

Flat LayoutOf(Model& model) {
  Flat flat;
  model.Visit([&](const std::string& name, at::Tensor& weight) {
    flat.layout.Add(name, flat.size, weight.numel());
    flat.weights.push_back({name, flat.size, weight.numel()});
    flat.size += (weight.numel() + 15) / 16 * 16;
  });
  return flat;
}

template <class Real>
std::vector<Real> ValuesOf(Model& model, const Flat& flat) {
  std::vector<Real> values(static_cast<size_t>(flat.size));
  size_t i = 0;
  model.Visit([&](const std::string&, at::Tensor& weight) {
    const at::Tensor all = weight.detach().to(at::kDouble).contiguous();
    std::copy_n(all.data_ptr<double>(), all.numel(),
                values.begin() + flat.weights[i++].begin);
  });
  return values;
}

constexpr uint64_t kMaskKey = 9;

// One target in seven does not count.
at::Tensor SomeTargets(const ModelDescription& model, int64_t time, uint64_t seed) {
  at::Tensor targets = RandomTokens(model, kBatch, time, seed);
  for (int64_t i = 3; i < targets.numel(); i += 7) targets.view(-1)[i] = -1;
  return targets;
}

// One batch of a run.
struct TestBatch {
  at::Tensor tokens, targets;
  std::vector<int32_t> token_ids, target_ids;

  TestBatch(const ModelDescription& model, int64_t time, uint64_t seed)
      : tokens(RandomTokens(model, kBatch, time, seed)),
        targets(SomeTargets(model, time, seed + 100)),
        token_ids(Ids(tokens)),
        target_ids(Ids(targets)) {}

  PassInput Input(int64_t shards, bool dropout, bool continues) const {
    return {.shards = Shards::Whole(tokens.size(0), shards),
            .time = tokens.size(1),
            .tokens = token_ids.data(),
            .targets = target_ids.data(),
            .dropout = dropout ? std::optional(kMaskKey) : std::nullopt,
            .continues = continues};
  }
};

template <class Real>
struct PassRun {
  std::vector<double> nats;
  std::vector<Real> gradients;  // of the last batch
};

// Batches that continue each other.
template <class Real>
PassRun<Real> RunPass(const ModelDescription& model, const Flat& flat,
                      const std::vector<Real>& weights,
                      const std::vector<TestBatch>& batches, bool dropout,
                      int64_t shards, int threads) {
  ThreadPool pool(threads);
  const auto pass = MakeGradientPass<Real>(model, flat.layout, pool);
  PassRun<Real> run;
  run.gradients.assign(static_cast<size_t>(pass->sums_size()), 0);
  PassCarry<Real> carry;
  for (const TestBatch& batch : batches) {
    const auto loss = pass->Run(batch.Input(shards, dropout, true), weights.data(),
                                run.gradients.data(), carry);
    EXPECT_TRUE(loss.ok()) << loss.status();
    pass->Finish(weights.data(), run.gradients.data());
    run.nats.push_back(loss.ok() ? loss->nats : NAN);
  }
  return run;
}

struct PassCase {
  ModelDescription model;
  std::string name;
  bool larger = false;
  // For float32: random models are not chosen to be well-conditioned.
  double tolerance = 3e-5;

  friend void PrintTo(const PassCase& one, std::ostream* out) { *out << one.name; }
};

constexpr int64_t kLargerWidth = 3 * 22;

// Sizes that no block, panel or slice divides.
ModelConfig Larger(ModelConfig config) {
  config.heads = 3;
  config.kv_heads = std::min<int64_t>(config.kv_heads, 1);
  config.d_model = kLargerWidth;
  config.d_ff = 300;
  config.vocab = 37;
  if (config.architecture != "fast_weights") config.positions = 200;
  if (config.mem_len > 0) config.mem_len = 45;
  return config;
}

// All variants, and models of blocks in any order.
std::vector<PassCase> SmallCases() {
  std::vector<PassCase> cases;
  for (const ModelConfig& config : AllVariants()) {
    cases.push_back({*DescribeModel(config),
                     config.architecture + "_" + std::to_string(cases.size())});
  }
  for (const ModelDescription& model : RandomDescriptions(/*whole=*/true)) {
    cases.push_back({model, "random_" + std::to_string(cases.size()), false, 1e-3});
  }
  return cases;
}

// Those, and each variant once more.
std::vector<PassCase> AllCases() {
  std::vector<PassCase> cases = SmallCases();
  for (const ModelConfig& config : AllVariants()) {
    cases.push_back(
        {*DescribeModel(Larger(config)),
         config.architecture + "_" + std::to_string(cases.size()) + "_larger", true});
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<PassCase>& info) {
  return info.param.name;
}

class PassTest : public testing::TestWithParam<PassCase> {
 protected:
  PassTest() {
    if (!GetParam().larger) return;
    // A memory that is fed back would grow without bounds.
    c10::AutoGradMode no_graph(false);
    model_->Visit([](const std::string&, at::Tensor& weight) { weight.mul_(0.4); });
  }

  const ModelDescription& model() const { return GetParam().model; }

  // As the sequence form and autograd compute it, in float64.
  PassRun<double> Expected(const std::vector<TestBatch>& batches, bool dropout) {
    CastWeights(*model_, at::kDouble);
    RequireGradients(*model_, true);
    PassRun<double> run;
    Carry carry;
    for (const TestBatch& batch : batches) {
      model_->Visit([](const std::string&, at::Tensor& weight) {
        weight.mutable_grad().reset();
      });
      ForwardOptions options;
      if (dropout) options.dropout = DropoutKey{.key = kMaskKey};
      ForwardResult result = MustForward(*model_, batch.tokens, carry, options);
      const at::Tensor loss =
          at::cross_entropy_loss(result.logits.flatten(0, 1), batch.targets.flatten(),
                                 {}, /*reduction=*/2, /*ignore_index=*/-1);
      run.nats.push_back(loss.item<double>());
      loss.backward();
      carry = result.carry.Detached();
    }
    run.gradients.assign(static_cast<size_t>(flat_.size), 0);
    size_t i = 0;
    model_->Visit([&](const std::string&, at::Tensor& weight) {
      const int64_t begin = flat_.weights[i++].begin;
      if (!weight.grad().defined()) return;
      const at::Tensor all = weight.grad().contiguous();
      std::copy_n(all.data_ptr<double>(), all.numel(), run.gradients.begin() + begin);
    });
    return run;
  }

  // Whether nothing applies a weight.
  bool IsKept(const std::string& name) const {
    for (size_t i = 0; i < model().layers.size(); ++i) {
      for (const SubLayer& sub : model().layers[i]) {
        if (sub.norm.kind == Norm::Kind::kKept &&
            name.starts_with(BaseOf(i, sub) + ".norm.")) {
          return true;
        }
      }
    }
    return false;
  }

  template <class Real>
  void ExpectNear(const PassRun<Real>& found, const PassRun<double>& expected,
                  double tolerance) const {
    ASSERT_EQ(found.nats.size(), expected.nats.size());
    for (size_t i = 0; i < found.nats.size(); ++i) {
      EXPECT_NEAR(found.nats[i], expected.nats[i], tolerance * (1 + expected.nats[i]));
    }
    double all = 0;
    for (const double gradient : expected.gradients) all += gradient * gradient;
    for (const Flat::Weight& weight : flat_.weights) {
      double away = 0, size = 0;
      for (int64_t i = weight.begin; i < weight.begin + weight.size; ++i) {
        away += std::pow(found.gradients[i] - expected.gradients[i], 2);
        size += std::pow(expected.gradients[i], 2);
      }
      // Those of some weights are 0 but for rounding.
      const double of = size > 1e-20 * all ? size : all;
      EXPECT_LE(std::sqrt(away), tolerance * std::sqrt(of)) << weight.name;
    }
  }

  const std::unique_ptr<Model> model_ = MakeTestModel(GetParam().model, kSeed);
  const Flat flat_ = LayoutOf(*model_);
};

std::vector<TestBatch> Batches(const PassCase& one) {
  std::vector<TestBatch> batches;
  const std::vector<int64_t> times =
      one.larger ? std::vector<int64_t>{61, 1, 76} : std::vector<int64_t>{3, 1, 4};
  for (const int64_t time : times) {
    batches.emplace_back(one.model, time, batches.size());
  }
  return batches;
}

// Three batches, the memory of the ones before carried, with dropout and without.
TEST_P(PassTest, EqualsTheSequenceForm) {
  const std::vector<TestBatch> batches = Batches(GetParam());
  const auto in_float = ValuesOf<float>(*model_, flat_);
  const auto in_double = ValuesOf<double>(*model_, flat_);
  for (const bool dropout : {false, true}) {
    const PassRun<double> expected = Expected(batches, dropout);
    ExpectNear(RunPass(model_->description(), flat_, in_double, batches, dropout, 2, 2),
               expected, 1e-7);
    ExpectNear(RunPass(model_->description(), flat_, in_float, batches, dropout, 2, 2),
               expected, GetParam().tolerance);
  }
}

// Along one random direction per weight. Small models have few kinks to step over.
class SmallPassTest : public PassTest {};
TEST_P(SmallPassTest, EqualsFiniteDifferences) {
  const TestBatch batch(model(), 8, 1);
  std::vector<double> weights = ValuesOf<double>(*model_, flat_);
  ThreadPool pool(1);
  const auto pass = MakeGradientPass<double>(model_->description(), flat_.layout, pool);
  std::vector<double> gradients(static_cast<size_t>(pass->sums_size()));
  const auto loss = [&](double* to) {
    PassCarry<double> carry;
    return pass->Run(batch.Input(1, true, false), weights.data(), to, carry)->nats;
  };
  loss(gradients.data());
  pass->Finish(weights.data(), gradients.data());
  uint64_t seed = 100;
  for (const Flat::Weight& weight : flat_.weights) {
    const at::Tensor direction = Normal({weight.size}, ++seed);
    const double* const along = direction.data_ptr<double>();
    const std::vector<double> original = weights;
    const auto at_offset = [&](double offset) {
      for (int64_t i = 0; i < weight.size; ++i) {
        weights[weight.begin + i] = original[weight.begin + i] + offset * along[i];
      }
      return loss(nullptr);
    };
    constexpr double kStep = 1e-7;
    const double numeric = (at_offset(kStep) - at_offset(-kStep)) / (2 * kStep);
    weights = original;
    double exact = 0;
    for (int64_t i = 0; i < weight.size; ++i) {
      exact += gradients[weight.begin + i] * along[i];
    }
    EXPECT_NEAR(numeric, exact, 1e-5 * (1 + std::abs(exact))) << weight.name;
  }
}

// A NaN in any weight is found: a run that diverges must not continue.
TEST_P(PassTest, ANaNReachesLossOrGradients) {
  if (GetParam().larger) return;  // a pass for each weight
  const auto weights = ValuesOf<float>(*model_, flat_);
  const std::vector<TestBatch> batches = Batches(GetParam());
  for (const Flat::Weight& weight : flat_.weights) {
    if (IsKept(weight.name)) continue;  // nothing applies it
    std::vector<float> broken = weights;
    std::fill_n(broken.begin() + weight.begin, weight.size, NAN);
    const auto run =
        RunPass(model_->description(), flat_, broken, batches, false, 1, 1);
    double sum = run.nats.back();
    for (const float gradient : run.gradients) sum += gradient;
    EXPECT_FALSE(std::isfinite(sum)) << weight.name;
  }
}

// Neither with gradients nor without, shorter or longer, with a memory or none.
TEST_P(PassTest, DoesNotDependOnEarlierBatches) {
  const auto weights = ValuesOf<float>(*model_, flat_);
  ThreadPool pool(2);
  const auto used = MakeGradientPass<float>(model_->description(), flat_.layout, pool);
  std::vector<float> gradients(static_cast<size_t>(used->sums_size()));
  const auto go_on = [&](GradientPass<float>& pass, int64_t time, float* to,
                         PassCarry<float>& carry) {
    const TestBatch batch(model(), GetParam().larger ? 5 * time : time, 1);
    return pass.Run(batch.Input(2, true, true), weights.data(), to, carry)->nats;
  };
  const auto run = [&](GradientPass<float>& pass, int64_t time, float* to) {
    PassCarry<float> carry;
    return go_on(pass, time, to, carry);
  };
  PassCarry<float> carry;
  for (int i = 0; i < 2; ++i) go_on(*used, 5, gradients.data(), carry);
  for (const int64_t time : {12, 3, 9, 1}) {
    const auto fresh =
        MakeGradientPass<float>(model_->description(), flat_.layout, pool);
    EXPECT_EQ(run(*used, time, nullptr), run(*fresh, time, nullptr));
  }
  for (const int64_t time : {7, 13, 2}) {
    const auto fresh =
        MakeGradientPass<float>(model_->description(), flat_.layout, pool);
    std::vector<float> expected(gradients.size());
    EXPECT_EQ(run(*used, time, gradients.data()), run(*fresh, time, expected.data()));
    EXPECT_EQ(gradients, expected);
  }
}

// As many threads as sequences, each of which is computed by one, and others, with
// which a sequence is computed by several, or threads have none.
TEST_P(PassTest, HasTheSameBitsWithAnyNumberOfThreads) {
  const std::vector<TestBatch> batches = Batches(GetParam());
  const auto weights = ValuesOf<float>(*model_, flat_);
  for (const int64_t shards : {1, 3, 4}) {
    const auto one =
        RunPass(model_->description(), flat_, weights, batches, true, shards, 1);
    for (const int threads : {2, 3, static_cast<int>(kBatch), 7}) {
      const auto many = RunPass(model_->description(), flat_, weights, batches, true,
                                shards, threads);
      EXPECT_EQ(many.nats, one.nats);
      EXPECT_EQ(many.gradients, one.gradients) << threads << " threads";
    }
  }
}

// As processes that share out a batch: also one without a shard.
TEST_P(PassTest, PartsOfABatchAddUpToItsBits) {
  const std::vector<TestBatch> batches = Batches(GetParam());
  const auto weights = ValuesOf<float>(*model_, flat_);
  ThreadPool pool(1);
  for (const auto& [shards, parts] : {std::pair(2, 2), std::pair(4, 2), std::pair(4, 4),
                                      std::pair(3, 2), std::pair(3, 4)}) {
    const auto whole =
        RunPass(model_->description(), flat_, weights, batches, true, shards, 1);
    const auto pass =
        MakeGradientPass<float>(model_->description(), flat_.layout, pool);
    using Sums = std::vector<float>;
    std::vector<Sums> sums(static_cast<size_t>(SlotsOf(parts)),
                           Sums(static_cast<size_t>(pass->sums_size())));
    std::vector<PassCarry<float>> carries(static_cast<size_t>(parts));
    for (size_t i = 0; i < batches.size(); ++i) {
      std::vector<PassLoss> losses(sums.size());
      const PassInput all = batches[i].Input(shards, true, true);
      const auto run = [&, shards = shards, parts = parts](int64_t part, int64_t to) {
        PassInput input = all;
        input.shards.own = NodeOf(shards, part, parts);
        const int64_t first = input.shards.OwnSequences().begin * input.time;
        input.tokens += first;
        input.targets += first;
        const auto loss =
            pass->Run(input, weights.data(), sums[to].data(), carries[part]);
        ASSERT_TRUE(loss.ok()) << loss.status();
        losses[to] = *loss;
      };
      SumShards(0, std::min(shards, parts), 0, run, [&](int64_t to, int64_t from) {
        losses[to].Add(losses[from]);
        std::transform(sums[to].begin(), sums[to].end(), sums[from].begin(),
                       sums[to].begin(), std::plus<>());
      });
      EXPECT_EQ(losses[0].nats, whole.nats[i]) << shards << " " << parts;
    }
    pass->Finish(weights.data(), sums[0].data());
    const auto size = static_cast<size_t>(flat_.size);
    sums[0].resize(size);
    Sums expected = whole.gradients;
    expected.resize(size);
    EXPECT_EQ(sums[0], expected) << shards << " " << parts;
  }
}

// The first variant of each architecture with a memory, wider, at 512 tokens after 512
// others.
std::vector<PassCase> LongCases() {
  std::vector<PassCase> cases;
  for (const ModelConfig& variant : AutoregressiveVariants()) {
    if (!cases.empty() && cases.back().name == variant.architecture) continue;
    ModelConfig config = Larger(variant);
    if (config.architecture != "fast_weights") config.positions = 1100;
    if (config.architecture == "transformer_xl") config.mem_len = 512;
    cases.push_back({*DescribeModel(config), config.architecture, true});
  }
  return cases;
}

class LongPassTest : public PassTest {
 protected:
  LongPassTest() {
    // Rounding would determine the sign of some of a million pre-activations.
    c10::AutoGradMode no_graph(false);
    model_->Visit([](const std::string& name, at::Tensor& weight) {
      if (name.ends_with("ff.in.bias")) weight.add_(6);
    });
  }
};
TEST_P(LongPassTest, EqualsTheSequenceForm) {
  std::vector<TestBatch> batches;
  for (int i = 0; i < 2; ++i) batches.emplace_back(model(), 512, i);
  ExpectNear(RunPass(model_->description(), flat_, ValuesOf<float>(*model_, flat_),
                     batches, false, 2, 2),
             Expected(batches, false), 1e-4);
}

// Several groups of sequences, one after the other.
TEST_P(LongPassTest, HasTheSameBitsWithAnyNumberOfThreads) {
  const std::vector<TestBatch> batches = {TestBatch(model(), 512, 1)};
  const auto weights = ValuesOf<float>(*model_, flat_);
  const auto one = RunPass(model_->description(), flat_, weights, batches, true, 2, 1);
  for (const int threads : {2, 3}) {
    const auto many =
        RunPass(model_->description(), flat_, weights, batches, true, 2, threads);
    EXPECT_EQ(many.nats, one.nats);
    EXPECT_EQ(many.gradients, one.gradients) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, LongPassTest, testing::ValuesIn(LongCases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Models, PassTest, testing::ValuesIn(AllCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Models, SmallPassTest, testing::ValuesIn(SmallCases()),
                         CaseName);

}  // namespace
}  // namespace mnemon
