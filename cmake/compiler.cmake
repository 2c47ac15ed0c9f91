# SPDX-License-Identifier: MIT
# Language level, warnings, compiler cache and the memory limit of heavy compilations.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

add_library(mnemon_warnings INTERFACE)
target_compile_options(mnemon_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers>)
if(MNEMON_WERROR)
  target_compile_options(mnemon_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

# g++ collects garbage below this size of its heap, in kB, in a tenth of its time; units
# with torch come to twice the size all the same.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# A unit that includes ATen needs up to 1.5 GB: one such compilation per 1.5 GB of free
# memory, at least one.
cmake_host_system_information(RESULT free_mb QUERY AVAILABLE_PHYSICAL_MEMORY)
math(EXPR torch_jobs "${free_mb} / 1536")
if(torch_jobs LESS 1)
  set(torch_jobs 1)
endif()
set_property(GLOBAL PROPERTY JOB_POOLS torch=${torch_jobs})
