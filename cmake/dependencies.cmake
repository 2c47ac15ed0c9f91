# SPDX-License-Identifier: MIT
# Every dependency, found here and nowhere else. Versions are Debian 12's unless noted;
# a minimum stands where an older one is known not to work.

# Threads: std::thread.
find_package(Threads REQUIRED)

# Abseil: Status, flat_hash_map, strings. Not absl::Mutex (ThreadSanitizer misreads it).
find_package(absl REQUIRED)

# OpenSSL: SHA-256 of manifests and identities.
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)

# spdlog: log lines. Built on fmt.
find_package(spdlog 1.10 REQUIRED)

# nlohmann-json: config, tokenizer, safetensors headers. Header only; its SAX interface
# lets us refuse duplicate keys and deep nesting.
find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)

# Highway: SIMD written once, dispatched at run time. 1.0 is what Debian has.
find_path(HIGHWAY_INCLUDE hwy/highway.h REQUIRED)
find_library(HIGHWAY_LIBRARY hwy REQUIRED)
add_library(mnemon_highway INTERFACE)
target_include_directories(mnemon_highway SYSTEM INTERFACE ${HIGHWAY_INCLUDE})
target_link_libraries(mnemon_highway INTERFACE ${HIGHWAY_LIBRARY})

# PCRE2: regular expressions of tokenizers, compiled and bounded. Its classes of
# characters are not used: model/text/pattern.h.
find_path(PCRE2_INCLUDE pcre2.h REQUIRED)
find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
add_library(mnemon_pcre2 INTERFACE)
target_include_directories(mnemon_pcre2 SYSTEM INTERFACE ${PCRE2_INCLUDE})
target_link_libraries(mnemon_pcre2 INTERFACE ${PCRE2_LIBRARY})

# zstd and xxHash: blocks and checksums of snapshots. XXH3 is stable since xxHash 0.8.
find_path(ZSTD_INCLUDE zstd.h REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
add_library(mnemon_zstd INTERFACE)
target_include_directories(mnemon_zstd SYSTEM INTERFACE ${ZSTD_INCLUDE})
target_link_libraries(mnemon_zstd INTERFACE ${ZSTD_LIBRARY})
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
add_library(mnemon_xxhash INTERFACE)
target_include_directories(mnemon_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE})
target_link_libraries(mnemon_xxhash INTERFACE ${XXHASH_LIBRARY})

# CLI11: command lines. toml++: training configurations. Both header only.
find_path(CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)

# Python: pages for man, made when a program is installed, and tests. Debian's first, since
# Debian's modules are for it alone.
find_program(MNEMON_PYTHON python3 HINTS /usr/bin REQUIRED)

# protobuf (module form: the one that works beside Torch) and gRPC (callback API).
if(MNEMON_SERVER)
  find_package(Protobuf 3.21 REQUIRED)
  find_package(gRPC 1.51 CONFIG REQUIRED)
  # prometheus-cpp: counters, histograms and their text format.
  find_package(prometheus-cpp CONFIG REQUIRED)
  # Boost.Beast and Boost.Asio: the HTTP port (docs/decisions/http_library.md). Header
  # only, so nothing is added to the packages that running needs.
  find_path(BOOST_INCLUDE boost/beast/version.hpp REQUIRED)
  add_library(mnemon_boost INTERFACE)
  target_include_directories(mnemon_boost SYSTEM INTERFACE ${BOOST_INCLUDE})
  target_compile_definitions(mnemon_boost INTERFACE BOOST_ASIO_NO_DEPRECATED)
  # RocksDB: the session store. Atomic commits that share an fsync, checksums, bounded
  # memory, and a file system that tests can replace. Not by its package, which asks for
  # those of its compressors.
  find_path(ROCKSDB_INCLUDE rocksdb/db.h REQUIRED)
  find_library(ROCKSDB_LIBRARY rocksdb REQUIRED)
  add_library(mnemon_rocksdb INTERFACE)
  target_include_directories(mnemon_rocksdb SYSTEM INTERFACE ${ROCKSDB_INCLUDE})
  target_link_libraries(mnemon_rocksdb INTERFACE ${ROCKSDB_LIBRARY})
  # libedit: line editing and history of `mnemon chat`. Under a BSD licence, as GNU
  # readline is not.
  find_path(LIBEDIT_INCLUDE histedit.h REQUIRED)
  find_library(LIBEDIT_LIBRARY edit REQUIRED)
  add_library(mnemon_libedit INTERFACE)
  target_include_directories(mnemon_libedit SYSTEM INTERFACE ${LIBEDIT_INCLUDE})
  target_link_libraries(mnemon_libedit INTERFACE ${LIBEDIT_LIBRARY})
endif()

# CUDA: nvcc for our own device code, up to C++17 (CMake 3.25 knows no later one for it),
# and the runtime, linked statically: the driver's library is looked for when a device is
# opened. Code for Ampere and Hopper, and PTX of both for what comes between and after.
if(MNEMON_CUDA OR MNEMON_TORCH_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS /usr/local/cuda/bin REQUIRED)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.5)
    message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old: 12.5 is needed")
  endif()
  # Not by FindCUDAToolkit: that of CMake 3.25 fails with CUDA 13, which has no nvToolsExt.
  find_library(MNEMON_CUDART_STATIC cudart_static
    HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
  add_library(mnemon_cudart INTERFACE)
  target_include_directories(mnemon_cudart SYSTEM INTERFACE
    ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_link_libraries(mnemon_cudart INTERFACE
    ${MNEMON_CUDART_STATIC} Threads::Threads ${CMAKE_DL_LIBS} rt)
endif()

# libtorch: any version from 1.13 on. Its package would add its own compile flags to
# every target of the project; only the library and two defines are taken from it.
if(MNEMON_TORCH_CUDA)
  include(torch_wheel)
else()
  find_package(Torch 1.13 REQUIRED)
  add_library(mnemon_torch INTERFACE)
  target_link_libraries(mnemon_torch INTERFACE torch_library)
endif()
target_compile_definitions(mnemon_torch INTERFACE AT_PER_OPERATOR_HEADERS)

if(MNEMON_TESTS)
  find_package(GTest 1.12 REQUIRED)
  # Boost.Context: the fibers that are a device's threads in its emulator. glibc's
  # swapcontext makes a system call for each switch.
  find_path(BOOST_CONTEXT_INCLUDE boost/context/detail/fcontext.hpp REQUIRED)
  find_library(BOOST_CONTEXT_LIBRARY boost_context REQUIRED)
  add_library(mnemon_boost_context INTERFACE)
  target_include_directories(mnemon_boost_context SYSTEM INTERFACE ${BOOST_CONTEXT_INCLUDE})
  target_link_libraries(mnemon_boost_context INTERFACE ${BOOST_CONTEXT_LIBRARY})
endif()
