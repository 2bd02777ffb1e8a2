# The kernels: their sources inside the library (compiled at run time), and the catalogue of those compiled ahead of time.

option(FA4_CATALOGUE "compile the usual kernels into the library (needs NVRTC)" ON)
set(FA4_CATALOGUE_FROM "" CACHE PATH "another build's folder whose catalogue is taken as it is: kernels do not depend on how C is compiled")

# ---- sources ----
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

# ---- catalogue ----
# The empty one is for kernel_pack itself and for the C tests, which must not wait for compilations.
add_library(fa4_catalogue_none OBJECT ${FA4_KERNEL_DIR}/pack/catalogue_none.c)
target_include_directories(fa4_catalogue_none PRIVATE engine)
set(FA4_CATALOGUE_OBJECTS $<TARGET_OBJECTS:fa4_catalogue_none>)
if(FA4_CATALOGUE_FROM)
  get_filename_component(FA4_CATALOGUE_FROM ${FA4_CATALOGUE_FROM} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
  set(FA4_CATALOGUE_C ${FA4_CATALOGUE_FROM}/catalogue.c)
  set(FA4_CATALOGUE_BIN ${FA4_CATALOGUE_FROM}/catalogue.bin)
elseif(FA4_CATALOGUE AND NOT FA4_SANITIZE)
  add_executable(kernel_pack ${FA4_KERNEL_DIR}/pack/pack.c $<TARGET_OBJECTS:fa4_objects> ${FA4_CATALOGUE_OBJECTS})
  target_compile_definitions(kernel_pack PRIVATE _GNU_SOURCE)
  target_link_libraries(kernel_pack PRIVATE fa4_objects)
  set(FA4_CATALOGUE_C ${CMAKE_BINARY_DIR}/catalogue.c)
  set(FA4_CATALOGUE_BIN ${CMAKE_BINARY_DIR}/catalogue.bin)
  add_custom_command(
    OUTPUT ${FA4_CATALOGUE_C} ${FA4_CATALOGUE_BIN}
    COMMAND ${CMAKE_COMMAND} -E env FA4_CACHE_DIR=${CMAKE_BINARY_DIR}/kernel_cache $<TARGET_FILE:kernel_pack> ${FA4_CATALOGUE_C}
            ${FA4_CATALOGUE_BIN}
    DEPENDS kernel_pack
    COMMENT "Compiling the kernel catalogue: about 150 kernels, a minute or two the first time" VERBATIM)
endif()
if(FA4_CATALOGUE_C)
  add_library(fa4_catalogue OBJECT ${FA4_CATALOGUE_C})
  set_source_files_properties(${FA4_CATALOGUE_C} PROPERTIES OBJECT_DEPENDS ${FA4_CATALOGUE_BIN})
  target_include_directories(fa4_catalogue PRIVATE engine)
  set(FA4_CATALOGUE_OBJECTS $<TARGET_OBJECTS:fa4_catalogue>)
endif()
foreach(target fa4 fa4_static fa4_cli)
  if(TARGET ${target})
    target_sources(${target} PRIVATE ${FA4_CATALOGUE_OBJECTS})
  endif()
endforeach()
