# The probes' tools: probe_device needs nothing but libcuda at run time (dlopen) and runs where there is a GPU; neither is part of the suite.
add_executable(probe_device spec/probes/probe_device.c)
target_compile_definitions(probe_device PRIVATE _GNU_SOURCE)
target_link_libraries(probe_device PRIVATE m ${CMAKE_DL_LIBS})
add_executable(probe_compile spec/probes/probe_compile.c $<TARGET_OBJECTS:fa4_objects> $<TARGET_OBJECTS:fa4_catalogue_none>)
target_include_directories(probe_compile PRIVATE engine spec/probes)
target_link_libraries(probe_compile PRIVATE fa4_objects)
target_compile_definitions(probe_compile PRIVATE _GNU_SOURCE)
set_target_properties(probe_device probe_compile PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
