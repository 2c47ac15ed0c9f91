# SPDX-License-Identifier: MIT
# cmake -DIN=FILE -DOUT=FILE.cc -DNAME=kName -DBYTES=kNameBytes -P embed_file.cmake:
# the bytes of IN as a constant of namespace mnemon.
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR bytes "${digits} / 2")
string(REGEX REPLACE "(..)" "'\\\\x\\1'," list "${hex}")
string(REGEX REPLACE "(('[^']*',){16})" "\\1\n" list "${list}")
file(WRITE ${OUT} "namespace mnemon {\n"
     "extern const char ${NAME}[];\nextern const unsigned long ${BYTES};\n"
     "const char ${NAME}[] = {\n${list}};\n"
     "const unsigned long ${BYTES} = ${bytes};\n}  // namespace mnemon\n")
