# SPDX-License-Identifier: MIT
# Headers of libraries that cost every unit several seconds, compiled once: on two cores a
# cold build takes four fifths of the time. The preset dev goes without, so that every
# unit is seen to include what it uses.
#
# The other presets also compile the units of a library in groups (CMAKE_UNITY_BUILD),
# which halves a cold build again: most of a unit's time goes into templates that its
# neighbours need too. So names in the unnamed namespaces of one library are distinct; a
# library in which that would be a burden stays out.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6)

set(mnemon_precompile_plain <algorithm> <functional> <map> <memory> <string> <vector>
    <absl/status/statusor.h> <nlohmann/json.hpp>)
set(mnemon_precompile_torch <algorithm> <functional> <map> <memory> <string> <vector>
    <ATen/TensorOperators.h> <ATen/core/Tensor.h>)
set(mnemon_precompile_grpc <algorithm> <functional> <map> <memory> <string> <vector>
    <grpcpp/grpcpp.h>)
set(mnemon_precompile_gtest <algorithm> <functional> <map> <memory> <string> <vector>
    <gmock/gmock.h> <gtest/gtest.h>)

# ccache stores units that use such headers only when it is configured to assume that
# their macros do not depend on the time of day.
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()

# mnemon_precompiled(plain|torch|grpc|gtest LIBRARY...): the target that compiles the list.
function(mnemon_precompiled list)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled_${list}.cc "")
  add_library(mnemon_precompiled_${list} OBJECT ${PROJECT_BINARY_DIR}/precompiled_${list}.cc)
  set_target_properties(mnemon_precompiled_${list} PROPERTIES UNITY_BUILD OFF)
  # As those that use it: see targets.cmake.
  if(list MATCHES "plain|torch")
    set_target_properties(mnemon_precompiled_${list} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  target_link_libraries(mnemon_precompiled_${list} PRIVATE ${ARGN})
  target_precompile_headers(mnemon_precompiled_${list} PRIVATE ${mnemon_precompile_${list}})
endfunction()
