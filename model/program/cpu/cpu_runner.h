// SPDX-License-Identifier: MIT
// StepRunner of the CPU: a team of threads, each of which executes its part of the
// whole program.
#pragma once

#include <memory>

#include "model/compute/thread_pool.h"
#include "model/operations/cpu_operations.h"
#include "model/program/step/step_program.h"
#include "model/program/step/step_runner.h"

namespace mnemon {

// All arguments must outlive the runner. May throw std::bad_alloc.
std::unique_ptr<StepRunner> MakeCpuRunner(const StepProgram& program,
                                          const CpuOperations& operations,
                                          ThreadPool& pool);

}  // namespace mnemon
