// SPDX-License-Identifier: MIT
// Texts of the task recall, and the sequences that a model is trained on.
#include "train/data/recall_text.h"

#include <algorithm>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "train/data/drawn_task.h"
#include "train/data/draws.h"

namespace mnemon {
namespace {

RecallText Text(uint64_t seed, int64_t facts, int64_t length) {
  return DrawRecallText(facts, length, [&](int64_t n, int64_t i) {
    // More numbers than characters would be those of the next sequence.
    EXPECT_LT(i, length);
    return UniformBelow(n, seed, 0, DrawPurpose::kDigits, i);
  });
}

TEST(RecallText, EachAnswerIsTheLatestDigitOfItsLetter) {
  int overwritten = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const int64_t length = LeastRecallLength(6) + static_cast<int64_t>(seed);
    const RecallText text = Text(seed, 6, length);
    ASSERT_EQ(static_cast<int64_t>(text.text.size()), length);
    ASSERT_EQ(text.facts.size(), 6u);
    ASSERT_EQ(text.questions.size(), 18u);
    std::map<char, char> digits;
    for (const int64_t letter : text.facts) {
      overwritten += digits.contains(text.text[letter]) ? 1 : 0;
      digits[text.text[letter]] = text.text[letter - 1];
    }
    for (const auto& [letter, digit] : digits) {
      EXPECT_TRUE(letter >= 'A' && letter <= 'Z') << letter;
      EXPECT_TRUE(digit >= '0' && digit <= '9') << digit;
    }
    for (const int64_t letter : text.questions) {
      EXPECT_EQ(text.text[letter - 1], '?');
      ASSERT_TRUE(digits.contains(text.text[letter]));
      EXPECT_EQ(text.text[letter + 1], digits[text.text[letter]]);
    }
  }
  EXPECT_GT(overwritten, 20);
}

TEST(RecallText, HasTheCharactersOfItsAlphabetAndNoFactAmongTheWords) {
  EXPECT_TRUE(std::is_sorted(RecallAlphabet().begin(), RecallAlphabet().end()));
  const RecallText text = Text(1, 5, 20000);
  for (const char character : RecallAlphabet()) {
    const bool of_words = character < '0' || character > 'Z';
    EXPECT_TRUE(!of_words || text.text.find(character) != std::string::npos);
  }
  for (const char character : text.text) {
    EXPECT_NE(RecallAlphabet().find(character), std::string::npos) << character;
  }
  // Capitals and digits are of facts and questions alone.
  for (int64_t t = text.facts.back() + 1; t < text.questions.front(); ++t) {
    EXPECT_FALSE(text.text[t] >= '0' && text.text[t] <= '9') << t;
    EXPECT_FALSE(text.text[t] >= 'A' && text.text[t] <= 'Z') << t;
  }
}

TEST(RecallTask, AsksForFactsInTrainingAndForAnswersAlways) {
  const DataOptions options = {.task = TaskKind::kRecall,
                               .seq_len = 80,
                               .batch = 4,
                               .classes = 5,
                               .training_sequences = 8,
                               .validation_sequences = 4,
                               .test_sequences = 4,
                               .test_len = 300};
  EXPECT_THAT(DrawnTaskFaults(options), testing::IsEmpty());
  const auto task = MakeDrawnTask(options);
  ASSERT_NE(task->tokenizer(), nullptr);
  EXPECT_EQ(task->vocab(), task->tokenizer()->size());
  for (const LoaderUse use :
       {LoaderUse::kTraining, LoaderUse::kValidation, LoaderUse::kTest}) {
    const bool training = use == LoaderUse::kTraining;
    const Batch batch = (*task->MakeLoader(options, use, 3))->Next().value();
    ASSERT_EQ(batch.columns, use == LoaderUse::kTest ? 300 : 80);
    EXPECT_EQ(batch.counted(), 4 * (training ? 20 : 15));
    for (int64_t row = 0; row < batch.rows; ++row) {
      const int64_t* const inputs = batch.inputs.data() + row * batch.columns;
      const std::string text =
          task->tokenizer()
              ->Decode(std::vector<int32_t>(inputs, inputs + batch.columns))
              .value();
      for (int64_t t = 0; t < batch.columns; ++t) {
        const int64_t target = batch.targets[row * batch.columns + t];
        if (target == kNoTarget) continue;
        EXPECT_EQ(target, inputs[t < 15 ? t - 1 : t + 1]) << text;
      }
    }
  }
}

TEST(RecallTask, NeedsRoomForItsQuestions) {
  DataOptions options = {.task = TaskKind::kRecall, .seq_len = 74, .classes = 5};
  EXPECT_THAT(
      DrawnTaskFaults(options),
      testing::ElementsAre(testing::HasSubstr("data.seq_len must be at least 75")));
  options.seq_len = 75;
  options.test_len = 74;
  EXPECT_THAT(
      DrawnTaskFaults(options),
      testing::ElementsAre(testing::HasSubstr("data.test_len must be 0 or at")));
}

}  // namespace
}  // namespace mnemon
