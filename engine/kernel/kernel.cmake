# The kernels' sources inside the library (compiled at run time).

set(FA4_KERNEL_DIR ${CMAKE_CURRENT_LIST_DIR})
file(GLOB FA4_KERNEL_FILES CONFIGURE_DEPENDS kernels/*.cu kernels/*.cuh kernels/*.h)
list(TRANSFORM FA4_KERNEL_FILES REPLACE "^${CMAKE_SOURCE_DIR}/kernels/" "" OUTPUT_VARIABLE FA4_KERNEL_NAMES)
set(FA4_KERNEL_SOURCES ${CMAKE_BINARY_DIR}/kernel_sources.c)
add_custom_command(
  OUTPUT ${FA4_KERNEL_SOURCES}
  COMMAND ${CMAKE_COMMAND} "-DROOT=${CMAKE_SOURCE_DIR}/kernels" "-DNAMES=${FA4_KERNEL_NAMES}" -DOUTPUT=${FA4_KERNEL_SOURCES}
          -P ${FA4_KERNEL_DIR}/sources.cmake
  DEPENDS ${FA4_KERNEL_FILES} ${FA4_KERNEL_DIR}/sources.cmake
  COMMENT "Embedding the kernels' sources" VERBATIM)
target_sources(fa4_objects PRIVATE ${FA4_KERNEL_SOURCES})
