// SPDX-License-Identifier: MIT
// Tasks whose sequences are drawn, so that they need no text:
//   reverse    random digits; the target is the same in reverse order. Learned to 100 %
//              by whatever knows positions and sees the whole sequence.
//   dihedral   a walk of two moves over the states 0 .. 3, s + 1 mod 4 and s xor 1,
//              from 0; the target is the state behind each move. Must be tracked.
//   copy       a stream of random digits; the target is the digit `data.distance`
//   tokens
//              ago, farther than a segment is long. Needs memory of earlier segments.
//   retrieval  2 S pairs of a key and a value, each one token, S = data.classes, drawn
//              with replacement; then keys, whose latest values are the targets. Values
//              must be overwritten.
//   capacity   S pairs, each key and each value once; then all keys. All must be kept.
//   recall     text: S facts, a digit and its letter ("7A "), words, then questions
//              ("?A"), whose digits are the targets, in training those of the facts as
//              well. Must be kept over any words: see train/data/recall_text.h.
// Retrieval and capacity are those of "Linear Transformers Are Secretly Fast Weight
// Programmers" (Schlag et al. 2021), section 6.1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/data/config.h"
#include "train/data/task.h"

namespace mnemon {

// Faults of the options that the task cannot work with, none if it can.
std::vector<std::string> DrawnTaskFaults(const DataOptions& options);

// V of its models, and what their width must exceed.
int64_t DrawnVocab(const DataOptions& options);
int64_t FeatureWidth(const DataOptions& options);

// options.*_sequences of options.seq_len tokens for training, validation and test, the
// same in every pass; training shuffles them and drops the last partial batch. The test
// has options.test_len tokens, if that is not 0, of which the last
// options.test_tail counts. Sequences of copy are segments of options.batch streams,
// drawn anew in every pass. REQUIRES: options without faults, task is not kText.
std::unique_ptr<Task> MakeDrawnTask(const DataOptions& options);

}  // namespace mnemon
