// SPDX-License-Identifier: MIT
// Tasks whose sequences are drawn at random; they need no text:
//   reverse    random digits; the targets are the same digits in reverse order. Every
//              model that knows positions and sees the whole sequence learns it.
//   dihedral   a walk of two moves over the states 0 .. 3, s + 1 mod 4 and s xor 1,
//              from 0; the target is the state after each move. Needs tracking of
//              state.
//   copy       a stream of random digits; the target is the digit of data.distance
//              tokens ago, which is beyond the segment. Needs memory of earlier ones.
//   retrieval  2 S pairs of a key and a value, each one token, S = data.classes, drawn
//              with replacement; then keys, whose latest values are the targets. Needs
//              overwriting of values.
//   capacity   S pairs, each key and each value once; then all keys. Needs to keep all.
//   recall     text: S facts, each a digit and a letter ("7A "), words, then questions
//              ("?A"), whose digits are the targets; in training so are those of the
//              facts. Needs to keep the facts over any words: see
//              train/data/recall_text.h.
// Retrieval and capacity are the tasks of "Linear Transformers Are Secretly Fast Weight
// Programmers" (Schlag et al. 2021), section 6.1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/data/config.h"
#include "train/data/task.h"

namespace mnemon {

// What is wrong with the options for their task; empty if nothing is.
std::vector<std::string> DrawnTaskFaults(const DataOptions& options);

// V of the models for the task, and the number that their width must exceed.
int64_t DrawnVocab(const DataOptions& options);
int64_t FeatureWidth(const DataOptions& options);

// Draws options.*_sequences sequences of options.seq_len tokens for training,
// validation and test, the same in every pass. Training shuffles them and drops the
// last partial batch. Test sequences have options.test_len tokens if that is not 0, and
// only the last part options.test_tail of them counts. The sequences of copy are
// segments of options.batch streams, drawn anew in every pass. REQUIRES: options
// without faults, a task other than kText.
std::unique_ptr<Task> MakeDrawnTask(const DataOptions& options);

}  // namespace mnemon
