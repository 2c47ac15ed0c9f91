# SPDX-License-Identifier: MIT
# Run by CPack on the folders of the components, before packages are made of them: what
# Debian wants in places of its own, and what only a package has.
set(debian ${CPACK_MNEMON_SOURCE_DIR}/deploy/debian)

# The licence in the form that machines read.
file(READ ${CPACK_MNEMON_SOURCE_DIR}/LICENSE licence)
string(REGEX MATCH "Copyright \\(c\\) ([^\n]*)" _ "${licence}")
set(holders ${CMAKE_MATCH_1})
string(REGEX REPLACE "^.*Copyright[^\n]*\n\n" "" licence "${licence}")
string(REGEX REPLACE "\n$" "" licence "${licence}")
string(REPLACE "\n\n" "\n.\n" licence "${licence}")
string(REPLACE "\n" "\n " licence "${licence}")
set(copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: mnemon

Files: *
Copyright: ${holders}
License: Expat
 ${licence}
")

foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component})
  if(NOT IS_DIRECTORY ${root}/usr)
    message(FATAL_ERROR "no component ${component} in ${CPACK_TEMPORARY_INSTALL_DIRECTORY}")
  endif()
  file(WRITE ${root}/usr/share/doc/${package}/copyright "${copyright}")
  set(changelog ${root}/usr/share/doc/${package}/changelog)
  file(WRITE ${changelog} "${CPACK_MNEMON_CHANGELOG}")
  execute_process(COMMAND gzip -9n ${changelog} COMMAND_ERROR_IS_FATAL ANY)
  if(EXISTS ${debian}/${package}.lintian-overrides)
    file(MAKE_DIRECTORY ${root}/usr/share/lintian/overrides)
    file(COPY_FILE ${debian}/${package}.lintian-overrides
         ${root}/usr/share/lintian/overrides/${package})
  endif()
  if(EXISTS ${root}/usr/share/zsh/site-functions)
    file(RENAME ${root}/usr/share/zsh/site-functions ${root}/usr/share/zsh/vendor-completions)
  endif()
endforeach()

set(server ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/mnemon-server)
if(EXISTS ${server})
  file(MAKE_DIRECTORY ${server}/lib)
  file(RENAME ${server}/usr/lib/systemd ${server}/lib/systemd)
  file(REMOVE_RECURSE ${server}/usr/lib)
  file(COPY ${debian}/server.env DESTINATION ${server}/etc/mnemon)
endif()
