// SPDX-License-Identifier: MIT
// Macros that return from a function with an error status.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function if `expr` is an error.
#define MNEMON_RETURN_IF_ERROR(expr)               \
  do {                                             \
    absl::Status mnemon_status = (expr);           \
    if (!mnemon_status.ok()) return mnemon_status; \
  } while (false)

#define MNEMON_CONCAT_INNER(a, b) a##b
#define MNEMON_CONCAT(a, b) MNEMON_CONCAT_INNER(a, b)

// Assigns the value of a StatusOr to `lhs` (which may declare a variable), or returns
// its error.
#define MNEMON_ASSIGN_OR_RETURN(lhs, expr) \
  MNEMON_ASSIGN_OR_RETURN_INNER(MNEMON_CONCAT(mnemon_or_, __LINE__), lhs, expr)
#define MNEMON_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return tmp.status();                 \
  lhs = *std::move(tmp)
