# SPDX-License-Identifier: MIT
# Debian packages, by `cpack --config build/release/CPackConfig.cmake`: into
# build/release/packages. mnemon-bench and mnemon-scenarios, which measure for developers, are
# not in them. The sequence module is a package of its own, because the server needs
# libtorch for nothing else.
set(MNEMON_MAINTAINER "the mnemon authors <mnemon@mnemon.invalid>" CACHE STRING
    "Who answers for a package, as its control file names them")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mnemon)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# Under deploy/debian: what has no place in an installation without packages.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_files.cmake)
set(CPACK_MNEMON_SOURCE_DIR ${PROJECT_SOURCE_DIR})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${MNEMON_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# mnemon_package(COMPONENT PACKAGE SECTION SUMMARY TEXT [FIELD value]...)
function(mnemon_package component package section summary text)
  string(TOUPPER ${component} upper)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
  while(ARGN)
    list(POP_FRONT ARGN field value)
    set(CPACK_DEBIAN_${upper}_PACKAGE_${field} "${value}" PARENT_SCOPE)
  endwhile()
endfunction()

set(CPACK_COMPONENTS_ALL)
mnemon_package(mnemon-train mnemon-train science
  "train transformers with memory"
  "Trains Feedback Transformers, Transformer-XL, fast weights and plain causal
transformers on text, imports checkpoints, evaluates and samples them, and
makes them smaller. Contains configurations to start from."
  # The reference BLAS, which libtorch takes otherwise, is slow.
  RECOMMENDS libopenblas0-pthread SUGGESTS mnemon-server)
if(MNEMON_SERVER)
  mnemon_package(mnemon mnemon-client net
    "client of the inference server mnemon"
    "Generates, chats and scores with the models of a mnemon server, looks after its
sessions, asks for its health and load, and measures what it reaches."
    SUGGESTS mnemon-server)
  mnemon_package(mnemon-server mnemon-server net
    "inference server for transformers with memory"
    "Serves Feedback Transformers, Transformer-XL, fast weights and plain causal
transformers over gRPC. Keeps the memory of each conversation, so that a client
sends only new text. With a service for systemd, rules for Prometheus and a
dashboard for Grafana."
    SUGGESTS "mnemon-client, mnemon-sequence, prometheus")
  set(debian ${PROJECT_SOURCE_DIR}/deploy/debian)
  set(CPACK_DEBIAN_MNEMON-SERVER_PACKAGE_CONTROL_EXTRA
      ${debian}/postinst ${debian}/prerm ${debian}/postrm ${debian}/conffiles)
  mnemon_package(mnemon-sequence mnemon-sequence net
    "decoder of mnemon-server that computes with libtorch"
    "What mnemon-server loads for --decoder sequence: the form of a model that
training uses, slow and exact, to compare with, or for an architecture without
a step form."
    # One build: the server refuses a module of another one.
    DEPENDS "mnemon-server (= ${PROJECT_VERSION})"
    RECOMMENDS libopenblas0-pthread)
endif()

# What an upgrade shows, and lintian asks for.
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} log -1 --format=%cD
                OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT date)
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
endif()
set(CPACK_MNEMON_CHANGELOG "mnemon (${PROJECT_VERSION}) stable; urgency=medium

  * Version ${PROJECT_VERSION}.

 -- ${MNEMON_MAINTAINER}  ${date}
")
include(CPack)
