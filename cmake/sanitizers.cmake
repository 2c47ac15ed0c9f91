# SPDX-License-Identifier: MIT
# MNEMON_SANITIZE: what the compiler watches over, "address,undefined" or "thread". A
# fault ends the program. The libraries of Debian are not instrumented.
set(MNEMON_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")
option(MNEMON_FUZZ "Build the fuzz targets, with clang" OFF)
if(MNEMON_SANITIZE)
  add_compile_options(-fsanitize=${MNEMON_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${MNEMON_SANITIZE})
  if(MNEMON_SANITIZE STREQUAL "thread")
    # With it GCC 12 crashes in model/blocks/attention/attend_gradient.cc.
    add_compile_options(-fno-ipa-cp)
  endif()
endif()
# For units whose inner loops stay in registers only if every small loop is unrolled.
# Watched over, one of them would take the compiler half an hour.
set(MNEMON_UNROLLED -O3)
if(MNEMON_SANITIZE)
  set(MNEMON_UNROLLED -O1)
endif()
if(MNEMON_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
