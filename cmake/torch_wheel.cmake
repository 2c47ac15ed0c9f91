# SPDX-License-Identifier: MIT
# mnemon_torch from the torch wheel of PyPI: the libtorch with CUDA. The wheel is found by
# the python3 of the virtual environment that MNEMON_TORCH_VENV names, else by the one of
# `scripts/install-deps cuda`, else by the python3 on the path.
#
# The wheel's own package file wants all of CUDA's libraries at configuration, and its
# include directory carries headers of protobuf 3.13; imported libraries want neither.
set(venv $ENV{MNEMON_TORCH_VENV})
if(NOT venv)
  set(cache $ENV{XDG_CACHE_HOME})
  if(NOT cache)
    set(cache $ENV{HOME}/.cache)
  endif()
  set(venv ${cache}/mnemon/torch-2.11.0)
endif()
find_program(MNEMON_TORCH_PYTHON python3 HINTS ${venv}/bin NO_CACHE REQUIRED)
execute_process(
  COMMAND ${MNEMON_TORCH_PYTHON} -c
    "import importlib.util as u; print(*u.find_spec('torch').submodule_search_locations)"
  OUTPUT_VARIABLE wheel OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT EXISTS "${wheel}/lib/libtorch_cuda.so")
  message(FATAL_ERROR "${MNEMON_TORCH_PYTHON} has no torch with CUDA: run "
          "`scripts/install-deps cuda`, or set MNEMON_TORCH_VENV to a virtual environment "
          "with torch 2.11.0")
endif()
file(STRINGS ${wheel}/version.py version REGEX "^__version__")
if(NOT version MATCHES "'([0-9.]+)" OR CMAKE_MATCH_1 VERSION_LESS 2.11)
  message(FATAL_ERROR "${wheel} is older than torch 2.11.0: ${version}")
endif()
message(STATUS "torch ${CMAKE_MATCH_1}: ${wheel}")
set(nccl ${wheel}/../nvidia/nccl/include)
if(NOT EXISTS "${nccl}/nccl.h")
  message(FATAL_ERROR "there is no ${nccl}/nccl.h: run `scripts/install-deps cuda`, or "
          "install nvidia-nccl-cu13 beside torch")
endif()

add_library(mnemon_torch INTERFACE)
target_include_directories(mnemon_torch SYSTEM INTERFACE
  ${wheel}/include ${wheel}/include/torch/csrc/api/include ${nccl})
# Classes that torch_cuda has only with them; which headers do not say.
target_compile_definitions(mnemon_torch INTERFACE USE_C10D_NCCL)
# Nothing of ours names a symbol of torch_cuda, which registers itself when it is loaded.
# What it needs in turn lies in the wheels beside it, and on machines without a GPU may be
# missing.
target_link_libraries(mnemon_torch INTERFACE
  ${wheel}/lib/libtorch_cpu.so ${wheel}/lib/libc10.so
  -Wl,--push-state,--no-as-needed,${wheel}/lib/libtorch_cuda.so,${wheel}/lib/libc10_cuda.so,--pop-state
  -Wl,--allow-shlib-undefined)
