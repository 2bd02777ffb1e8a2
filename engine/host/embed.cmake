# cmake -DROOT=lua -DGENERATED=build/lua -DNAMES=fa4/a.lua;... -DOUTPUT=embedded.c -P embed.cmake: the modules' source text as C arrays.
# Module fa4/mask.lua is required as fa4.mask (fa4/init.lua as fa4) and its chunk is named @fa4/mask.lua.

set(arrays "")
set(table "")
set(index 0)
foreach(name ${NAMES} fa4/cdef.lua)
  set(path "${ROOT}/${name}")
  if(name STREQUAL "fa4/cdef.lua")
    set(path "${GENERATED}/${name}")
  endif()
  file(READ "${path}" bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR count "${digits} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(/init)?[.]lua$" "" module "${name}")
  string(REPLACE "/" "." module "${module}")
  string(APPEND arrays "static const char source_${index}[] = {\n${bytes}0};\n")
  string(APPEND table "    {\"${module}\", \"@${name}\", source_${index}, ${count}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUTPUT}" "/* Generated: the Lua modules inside the executable. */\n#include \"host/host.h\"\n\n${arrays}\n"
  "const host_module host_modules[] = {\n${table}};\nconst int host_module_count = ${index};\n")
