// SPDX-License-Identifier: MIT
// The runner of the CPU: a team of threads, each of which goes through the whole
// program and does its part.
#pragma once

#include <memory>

#include "model/compute/thread_pool.h"
#include "model/operations/cpu_operations.h"
#include "model/program/step_program.h"
#include "model/program/step_runner.h"

namespace mnemon {

// All must outlive it. May throw std::bad_alloc.
std::unique_ptr<StepRunner> MakeCpuRunner(const StepProgram& program,
                                          const CpuOperations& operations,
                                          ThreadPool& pool);

}  // namespace mnemon
