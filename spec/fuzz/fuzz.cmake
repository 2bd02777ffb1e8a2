# Fuzz targets for the file readers: cmake -DFA4_FUZZ=ON -DCMAKE_C_COMPILER=clang; then
#   build/fuzz_npy CORPUS spec/fuzz/seeds/npy -max_total_time=60
# The seeds also run in the normal suite (spec/fuzz_seeds_test.c).
option(FA4_FUZZ "build the libFuzzer targets (clang only)" OFF)
if(FA4_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "FA4_FUZZ needs clang: -DCMAKE_C_COMPILER=clang")
  endif()
  file(GLOB FA4_FUZZ_SOURCES CONFIGURE_DEPENDS engine/core/*.c engine/tensor/*.c engine/files/*.c)
  foreach(kind npy npz safetensors)
    add_executable(fuzz_${kind} spec/fuzz/fuzz_${kind}.c ${FA4_FUZZ_SOURCES})
    target_include_directories(fuzz_${kind} PRIVATE engine spec)
    target_compile_definitions(fuzz_${kind} PRIVATE _GNU_SOURCE)
    target_compile_options(fuzz_${kind} PRIVATE -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined)
    target_link_options(fuzz_${kind} PRIVATE -fsanitize=fuzzer,address,undefined)
    target_link_libraries(fuzz_${kind} PRIVATE ZLIB::ZLIB m)
  endforeach()
endif()
