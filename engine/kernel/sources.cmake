# cmake -DROOT=kernels -DNAMES=ptx.cuh;... -DOUTPUT=kernel_sources.c -P sources.cmake: the kernels' source text as C arrays, so that a
# kernel can be compiled at run time without any file. Each begins with a #line of its own: left alone, NVRTC names included files by
# the working directory, and the same kernel would differ from place to place.

set(arrays "")
set(table "")
set(index 0)
foreach(name ${NAMES})
  file(READ "${ROOT}/${name}" bytes HEX)
  string(HEX "#line 1 \"/kernels/${name}\"\n" line)
  string(PREPEND bytes "${line}")
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const char source_${index}[] = {\n${bytes}0};\n")
  string(APPEND table "    {\"${name}\", source_${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE "${OUTPUT}" "/* Generated: the kernels' sources. */\n#include \"kernel/variant.h\"\n\n${arrays}\n"
  "const nvrtc_header kernel_sources[] = {\n${table}    {0, 0}};\nconst int32_t kernel_source_count = ${index};\n")
