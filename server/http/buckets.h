// SPDX-License-Identifier: MIT
// Upper bounds of histograms' buckets.
#pragma once

#include <vector>

namespace mnemon::buckets {

using Buckets = std::vector<double>;

// Seconds.
inline const Buckets kFirstToken = {.0005, .001, .002, .005, .01, .02, .04, .06,
                                    .08,   .1,   .25,  .5,   .75, 1,   2.5, 5,
                                    7.5,   10,   20,   40,   80,  160, 640, 2560};
inline const Buckets kStep = {.0001, .0002, .0005, .001, .002, .005, .01, .025, .05,
                              .075,  .1,    .15,   .2,   .3,   .4,   .5,  .75,  1,
                              2.5,   5,     7.5,   10,   20,   40,   80};
inline const Buckets kRequest = {.001, .005, .01, .05, .1,  .3,  .5,   .8,  1,
                                 1.5,  2,    2.5, 5,   10,  15,  20,   30,  40,
                                 50,   60,   120, 240, 480, 960, 1920, 7680};
inline const Buckets kStall = {.001, .01, .1, 1, 5, 10, 30, 60, 300};
// gRFC A66.
inline const Buckets kRpc = {
    0,   1e-5, 5e-5, 1e-4, 3e-4, 6e-4, 8e-4, .001, .002, .003, .004, .005, .006, .008,
    .01, .013, .016, .02,  .025, .03,  .04,  .05,  .065, .08,  .1,   .13,  .16,  .2,
    .25, .3,   .4,   .5,   .65,  .8,   1,    2,    5,    10,   20,   50,   100};

// Sessions.
inline const Buckets kBatch = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

// Bytes, gRFC A66.
inline const Buckets kMessage = {
    0,          1024,        2048,         4096,        16384,
    65536,      262144,      1048576.0,    4194304.0,   16777216.0,
    67108864.0, 268435456.0, 1073741824.0, 4294967296.0};

}  // namespace mnemon::buckets
