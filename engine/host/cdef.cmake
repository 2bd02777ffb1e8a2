# cmake -DHEADER=fa4.h -DOUTPUT=cdef.lua -P cdef.cmake: the header's declarations as a Lua module that returns one string.
# Dropped: comments, preprocessor lines, FA4_API and the extern "C" block, which the FFI's C parser does not read.

file(READ "${HEADER}" text)
# Brackets and semicolons mean something to CMake's lists; they travel under other names.
string(REPLACE ";" "<semicolon>" text "${text}")
string(REPLACE "[" "<open>" text "${text}")
string(REPLACE "]" "<close>" text "${text}")
string(REGEX REPLACE "/[*]([^*]|[*]+[^*/])*[*]+/" "" text "${text}")
string(REGEX REPLACE "#ifdef __cplusplus[^#]*#endif" "" text "${text}")
string(REGEX REPLACE "(^|\n)[ \t]*#[^\n]*" "\\1" text "${text}")
string(REGEX REPLACE "FA4_API " "" text "${text}")
string(REGEX REPLACE "[ \t]+\n" "\n" text "${text}")
string(REGEX REPLACE "\n\n+" "\n" text "${text}")
string(REPLACE "<semicolon>" ";" text "${text}")
string(REPLACE "<open>" "[" text "${text}")
string(REPLACE "<close>" "]" text "${text}")
file(WRITE "${OUTPUT}.new" "-- Generated from engine/fa4.h: the C declarations that the FFI reads.\nreturn [==[${text}]==]\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different "${OUTPUT}.new" "${OUTPUT}")
file(TOUCH "${OUTPUT}")
file(REMOVE "${OUTPUT}.new")
