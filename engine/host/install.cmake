# Install rules: header, libraries, executable, Lua modules, fa4.pc and the CMake package fa4::fa4.

include(CMakePackageConfigHelpers)
set(FA4_INSTALL_LUA ${CMAKE_INSTALL_DATADIR}/lua/5.1)
set(FA4_INSTALL_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/fa4)

set_target_properties(fa4_static PROPERTIES OUTPUT_NAME fa4)
install(TARGETS fa4 fa4_static EXPORT fa4_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS fa4_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES engine/fa4.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY lua/fa4 DESTINATION ${FA4_INSTALL_LUA} FILES_MATCHING PATTERN "*.lua")
install(FILES ${FA4_LUA_BUILD}/cdef.lua DESTINATION ${FA4_INSTALL_LUA}/fa4)

# The install tree may be moved: fa4.pc finds the prefix from its own place.
file(RELATIVE_PATH FA4_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${FA4_HOST_DIR}/fa4.pc.in ${CMAKE_BINARY_DIR}/fa4.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/fa4.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(EXPORT fa4_targets NAMESPACE fa4:: DESTINATION ${FA4_INSTALL_CMAKE})
configure_package_config_file(${FA4_HOST_DIR}/fa4-config.cmake.in ${CMAKE_BINARY_DIR}/fa4-config.cmake
  INSTALL_DESTINATION ${FA4_INSTALL_CMAKE})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/fa4-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/fa4-config.cmake ${CMAKE_BINARY_DIR}/fa4-config-version.cmake DESTINATION ${FA4_INSTALL_CMAKE})
