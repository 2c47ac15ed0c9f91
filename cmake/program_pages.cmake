# SPDX-License-Identifier: MIT
# Run at installation: what `program` says of itself, completions for bash, zsh and fish and
# a page for man, as files in `pages`. REQUIRES `source`, the project's root, its `version`,
# and `python`.
get_filename_component(name ${program} NAME)
file(MAKE_DIRECTORY ${pages})
foreach(shell bash fish)
  execute_process(COMMAND ${program} --${shell}-completion OUTPUT_FILE ${pages}/${name}.${shell}
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${python} -B ${source}/scripts/reference manual ${program}
                        --version ${version} --out ${pages}/${name}.1.gz
                COMMAND_ERROR_IS_FATAL ANY)

# zsh takes the script for bash; it reads the file when it completes the program for the
# first time, so the file also answers.
file(READ ${pages}/${name}.bash script)
string(REGEX MATCH "\ncomplete (-o [^\n]* -F [^ ]+)" _ "${script}")
file(WRITE ${pages}/${name}.zsh "#compdef ${name}\n${script}_bash_complete ${CMAKE_MATCH_1}\n")
