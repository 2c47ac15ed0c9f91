# SPDX-License-Identifier: MIT
# Headers of libraries that cost every unit several seconds, compiled once: on two cores a
# cold build takes four fifths of the time. The preset dev goes without, so that every
# unit is seen to include what it uses.
#
# The other presets also compile the units of a library or test in groups
# (CMAKE_UNITY_BUILD), which halves a cold build again: most of a unit's time goes into
# templates that its neighbours need too. So names in the unnamed namespaces of one
# library or test are distinct; a library in which that would be a burden stays out.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 20)

set(mnemon_precompile_plain <algorithm> <functional> <map> <memory> <string> <vector>
    <absl/status/statusor.h> <nlohmann/json.hpp>)
set(mnemon_precompile_torch <algorithm> <functional> <map> <memory> <string> <vector>
    <ATen/TensorOperators.h> <ATen/core/Tensor.h>)
set(mnemon_precompile_grpc <algorithm> <functional> <map> <memory> <string> <vector>
    <grpcpp/grpcpp.h>)
# Those of tests also hold what most tests of a kind include.
set(mnemon_precompile_test ${mnemon_precompile_plain} <gmock/gmock.h> <gtest/gtest.h>)
set(mnemon_precompile_torch_test ${mnemon_precompile_torch} <absl/status/statusor.h>
    <nlohmann/json.hpp> <gmock/gmock.h> <gtest/gtest.h>)
set(mnemon_precompile_grpc_test <nlohmann/json.hpp> <gmock/gmock.h>
    ${PROJECT_SOURCE_DIR}/tests/server/rpc/rig.h)
set(mnemon_precompile_engine_test <nlohmann/json.hpp> <gmock/gmock.h>
    ${PROJECT_SOURCE_DIR}/tests/server/engine/engine_fixture.h)

# Beside -O1 this saves a quarter of the time of a test source, which runs once. Functions
# that are inline in the product may then be taken from here: tests of speed are bench's.
set(mnemon_test_options $<$<CONFIG:Release>:-O0>)

# ccache stores units that use such headers only when it is configured to assume that
# their macros do not depend on the time of day.
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  # A precompiled header knows its parts by their text with comments, for #pragma once:
  # one stored before a comment changed would let them be included twice.
  set(mnemon_precompile_launcher ${CMAKE_COMMAND} -E env CCACHE_COMMENTS=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# mnemon_precompiled(LIST LIBRARY...): the target that compiles mnemon_precompile_LIST.
function(mnemon_precompiled list)
  set(target mnemon_precompiled_${list})
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled_${list}.cc "")
  add_library(${target} OBJECT ${PROJECT_BINARY_DIR}/precompiled_${list}.cc)
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  if(CCACHE)
    set_target_properties(${target} PROPERTIES
        CXX_COMPILER_LAUNCHER "${mnemon_precompile_launcher}")
  endif()
  # As those that use it: see targets.cmake.
  if(list MATCHES "^(plain|torch|torch_test)$")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  if(list MATCHES "test$")
    target_compile_options(${target} PRIVATE ${mnemon_test_options})
  endif()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${ARGN})
  target_precompile_headers(${target} PRIVATE ${mnemon_precompile_${list}})
endfunction()
