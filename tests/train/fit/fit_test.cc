// SPDX-License-Identifier: MIT
// Runs of train.seconds under a clock of the test's own.
#include "train/fit/fit.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kSeconds = 4;
constexpr double kPeak = 0.01;

// A machine on which every reading of the clock takes some time.
class MachineClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    now_ += reading_;
    if (then_ && now_ >= milliseconds(1000 * kSeconds / 2)) {
      std::exchange(then_, nullptr)();
    }
    return std::chrono::steady_clock::time_point(now_);
  }
  std::chrono::system_clock::time_point WallNow() const override {
    return std::chrono::system_clock::time_point(now_);
  }

  // Called once, in the middle of the run.
  void InTheMiddle(std::function<void()> then) { then_ = std::move(then); }
  void set_reading(milliseconds reading) { reading_ = reading; }

 private:
  milliseconds reading_{1};
  mutable milliseconds now_{0};
  mutable std::function<void()> then_;
};

class FitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            StrCat("fit_", getpid(), "_",
                   testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(root_);
    std::ofstream text(root_ / "text.txt");
    for (int i = 0; i < 300; ++i) text << "the cat " << i % 7 << "\n";
  }
  void TearDown() override { fs::remove_all(root_); }

  void Run(const Clock& clock, const std::string& out, bool resume = false) {
    TrainConfig config;
    config.model = {.architecture = "causal"};
    config.model.d_model = 8;
    config.model.heads = 2;
    config.model.layers = 1;
    config.model.d_ff = 16;
    config.data.text = root_ / "text.txt";
    config.data.seq_len = 8;
    config.data.batch = 2;
    config.schedule = {.kind = ScheduleKind::kCosine, .lr = kPeak, .warmup = 10};
    config.duration = {.seconds = kSeconds};
    config.log_every = 1;
    config.validation_batches = 1;
    config.sample.tokens = 0;
    config.out = root_ / out;
    const absl::Status status =
        Fit({.config = config, .resume = resume, .threads = 1, .clock = clock});
    ASSERT_TRUE(status.ok()) << status;
  }

  struct Rows {
    std::vector<double> rates;
    int validations = 0;
  };
  Rows Metrics(const std::string& out) const {
    Rows rows;
    std::ifstream file(root_ / out / "metrics.csv");
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream cells(line);
      std::string cell[4];  // step, loss, validation, learning_rate
      for (std::string& c : cell) std::getline(cells, c, ',');
      rows.validations += !cell[2].empty();
      rows.rates.push_back(std::stod(cell[3]));
    }
    return rows;
  }

  fs::path root_;
};

TEST_F(FitTest, SecondsEndTheScheduleWhateverTheLoad) {
  for (const milliseconds load : {milliseconds(1), milliseconds(4)}) {
    MachineClock clock;
    clock.InTheMiddle([&] { clock.set_reading(load); });
    const std::string out = StrCat("run", load.count());
    Run(clock, out);
    const Rows rows = Metrics(out);
    ASSERT_GT(rows.rates.size(), 50u);
    EXPECT_LT(rows.rates.front(), 0.01 * kPeak) << "the warm-up begins";
    EXPECT_GT(*std::max_element(rows.rates.begin(), rows.rates.end()), 0.9 * kPeak);
    EXPECT_LT(rows.rates.back(), 0.01 * kPeak) << "the schedule ends";
    EXPECT_EQ(rows.validations, 10);
  }
}

TEST_F(FitTest, AResumedRunGoesOnWhereItsTimeStood) {
  MachineClock clock;
  clock.InTheMiddle([&] {
    fs::copy(root_ / "whole", root_ / "killed",
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  });
  Run(clock, "whole");
  MachineClock another;
  Run(another, "killed", /*resume=*/true);
  const std::vector<double> whole = Metrics("whole").rates;
  const std::vector<double> killed = Metrics("killed").rates;
  EXPECT_NEAR(static_cast<double>(killed.size()), static_cast<double>(whole.size()),
              0.05 * static_cast<double>(whole.size()));
  for (size_t i = 0; i < std::min(killed.size(), whole.size()); ++i) {
    EXPECT_NEAR(killed[i], whole[i], 0.05 * kPeak) << i;
  }
  EXPECT_LT(killed.back(), 0.01 * kPeak);
}

}  // namespace
}  // namespace mnemon
