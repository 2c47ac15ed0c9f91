# SPDX-License-Identifier: MIT
# cmake -DIN=page.html -DOUT=FILE.html -P inline_page.cmake: the page as one file. Its
# style sheets and scripts, which lie beside it, take the places of their tags.
get_filename_component(folder ${IN} DIRECTORY)
file(READ ${IN} page)
string(REGEX MATCHALL
       "<link rel=\"stylesheet\" href=\"[^\"]+\">|<script src=\"[^\"]+\"></script>" tags
       "${page}")
foreach(tag IN LISTS tags)
  string(REGEX REPLACE ".*(href|src)=\"([^\"]+)\".*" "\\2" file "${tag}")
  file(READ ${folder}/${file} content)
  if(tag MATCHES "^<link")
    string(REPLACE "${tag}" "<style>\n${content}</style>" page "${page}")
  else()
    string(REPLACE "${tag}" "<script>\n${content}</script>" page "${page}")
  endif()
endforeach()
file(WRITE ${OUT} "${page}")
