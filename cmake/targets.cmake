# SPDX-License-Identifier: MIT
# mnemon_library / mnemon_binary / mnemon_test:
#   NAME SOURCES file... [DEPS target...] [PUBLIC_DEPS target...] [TORCH] [GRPC]
# Binaries lie in <build>/bin. Each is a component of the installation of its own name,
# together with its completions for bash, zsh and fish, and its page for man.
# Libraries without GRPC, and all that is compiled with their precompiled headers, can be
# part of a shared library, the sequence module; calls within one are direct all the same.
# DEPS are linked PRIVATE. TORCH links libtorch PRIVATE and puts the units into the job
# pool of heavy compilations. All use precompiled headers.
include(GNUInstallDirs)
# Libraries outside the system's folders, as those of a torch wheel, are found in place.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

function(mnemon_configure target)
  cmake_parse_arguments(ARG "TORCH;GRPC" "" "SOURCES;DEPS;PUBLIC_DEPS" ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE mnemon_warnings ${ARG_DEPS})
  if(ARG_TORCH)
    target_link_libraries(${target} PRIVATE mnemon_torch)
    set_property(TARGET ${target} PROPERTY JOB_POOL_COMPILE torch)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
    target_precompile_headers(${target} REUSE_FROM mnemon_precompiled_torch)
  elseif(ARG_GRPC)
    target_precompile_headers(${target} REUSE_FROM mnemon_precompiled_grpc)
  endif()
endfunction()

# For targets that ask for neither TORCH nor GRPC.
function(mnemon_precompile_plain target)
  cmake_parse_arguments(ARG "TORCH;GRPC" "" "SOURCES;DEPS;PUBLIC_DEPS" ${ARGN})
  if(NOT ARG_TORCH AND NOT ARG_GRPC)
    target_precompile_headers(${target} REUSE_FROM mnemon_precompiled_plain)
  endif()
endfunction()

function(mnemon_library target)
  cmake_parse_arguments(ARG "TORCH;GRPC" "" "SOURCES;DEPS;PUBLIC_DEPS" ${ARGN})
  add_library(${target} STATIC ${ARG_SOURCES})
  if(NOT ARG_GRPC)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${target} PRIVATE
                           $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-semantic-interposition>)
  endif()
  mnemon_configure(${target} ${ARGN})
  mnemon_precompile_plain(${target} ${ARGN})
  target_link_libraries(${target} PUBLIC ${ARG_PUBLIC_DEPS})
endfunction()

function(mnemon_binary target)
  cmake_parse_arguments(ARG "TORCH;GRPC" "" "SOURCES;DEPS;PUBLIC_DEPS" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  mnemon_configure(${target} ${ARGN})
  install(TARGETS ${target} COMPONENT ${target})
  set(pages ${PROJECT_BINARY_DIR}/pages)
  install(CODE "
    set(program \"$<TARGET_FILE:${target}>\")
    set(pages \"${pages}\")
    set(source \"${PROJECT_SOURCE_DIR}\")
    set(version \"${PROJECT_VERSION}\")
    set(python \"${MNEMON_PYTHON}\")
    include(\"${PROJECT_SOURCE_DIR}/cmake/program_pages.cmake\")"
    COMPONENT ${target})
  foreach(page "bash bash-completion/completions ${target}"
               "fish fish/vendor_completions.d ${target}.fish"
               "zsh zsh/site-functions _${target}_completion" "1.gz man/man1 ${target}.1.gz")
    separate_arguments(page)
    list(POP_FRONT page suffix folder name)
    install(FILES ${pages}/${target}.${suffix} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder}
            RENAME ${name} COMPONENT ${target})
  endforeach()
endfunction()

# Seconds of a test, that only one which hangs comes to: no test judges time.
set(MNEMON_TEST_TIMEOUT 1800)
if(MNEMON_SANITIZE)
  math(EXPR MNEMON_TEST_TIMEOUT "4 * ${MNEMON_TEST_TIMEOUT}")
endif()

# Part of binutils; it links in a third of the time or less.
find_program(GOLD ld.gold)

# One test binary; LABEL slow keeps it out of `scripts/test --fast`. That is for those of
# 20 s and more, but for the few that guard most. ENGINE precompiles the fixture of the
# engine's tests.
function(mnemon_test target)
  cmake_parse_arguments(ARG "TORCH;GRPC;ENGINE" "LABEL" "SOURCES;DEPS;PUBLIC_DEPS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL fast)
  endif()
  add_executable(${target} ${ARG_SOURCES})
  mnemon_configure(${target} SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS}
                   GTest::gtest GTest::gmock GTest::gtest_main
                   $<$<BOOL:${ARG_TORCH}>:mnemon_torch>)
  target_compile_options(${target} PRIVATE ${mnemon_test_options})
  if(GOLD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_link_options(${target} PRIVATE -fuse-ld=gold)
  endif()
  set(precompiled test)
  if(ARG_TORCH)
    set_property(TARGET ${target} PROPERTY JOB_POOL_COMPILE torch)
    target_compile_options(${target} PRIVATE -fPIC)
    set(precompiled torch_test)
  elseif(ARG_GRPC)
    set(precompiled grpc_test)
  elseif(ARG_ENGINE)
    set(precompiled engine_test)
  endif()
  target_precompile_headers(${target} REUSE_FROM mnemon_precompiled_${precompiled})
  foreach(source ${ARG_SOURCES})
    # Only where it is used: a unit without paths is the same in every checkout.
    file(STRINGS ${source} used REGEX MNEMON_.*_DIR)
    if(used)
      target_compile_definitions(${target} PRIVATE
        MNEMON_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MNEMON_BINARY_DIR="${PROJECT_BINARY_DIR}")
      break()
    endif()
  endforeach()
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${MNEMON_TEST_TIMEOUT}
                       SKIP_REGULAR_EXPRESSION "^all tests skipped$")
endfunction()
