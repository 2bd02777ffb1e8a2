# The executable: LuaJIT and libedit linked statically, the engine linked whole (ffi.C finds every fa4_ function), and the Lua modules
# embedded as source. Also the generated module fa4.cdef, which plain LuaJIT uses too, and the install rules.

set(FA4_HOST_DIR ${CMAKE_CURRENT_LIST_DIR})
set(FA4_LUA_BUILD ${CMAKE_BINARY_DIR}/lua/fa4)

# ---- fa4.cdef: the public header as the FFI reads it ----
add_custom_command(
  OUTPUT ${FA4_LUA_BUILD}/cdef.lua
  COMMAND ${CMAKE_COMMAND} -DHEADER=${CMAKE_SOURCE_DIR}/engine/fa4.h -DOUTPUT=${FA4_LUA_BUILD}/cdef.lua -P ${FA4_HOST_DIR}/cdef.cmake
  DEPENDS ${CMAKE_SOURCE_DIR}/engine/fa4.h ${FA4_HOST_DIR}/cdef.cmake
  COMMENT "Generating fa4.cdef from fa4.h" VERBATIM)
add_custom_target(fa4_cdef ALL DEPENDS ${FA4_LUA_BUILD}/cdef.lua)

# ---- every Lua module as a C array ----
file(GLOB FA4_LUA_MODULES CONFIGURE_DEPENDS lua/fa4/*.lua lua/fa4/*/*.lua)
list(TRANSFORM FA4_LUA_MODULES REPLACE "^${CMAKE_SOURCE_DIR}/lua/" "" OUTPUT_VARIABLE FA4_LUA_NAMES)
set(FA4_EMBEDDED ${CMAKE_BINARY_DIR}/embedded.c)
add_custom_command(
  OUTPUT ${FA4_EMBEDDED}
  COMMAND ${CMAKE_COMMAND} "-DROOT=${CMAKE_SOURCE_DIR}/lua" "-DGENERATED=${CMAKE_BINARY_DIR}/lua" "-DNAMES=${FA4_LUA_NAMES}"
          -DOUTPUT=${FA4_EMBEDDED} -P ${FA4_HOST_DIR}/embed.cmake
  DEPENDS ${FA4_LUA_MODULES} ${FA4_LUA_BUILD}/cdef.lua ${FA4_HOST_DIR}/embed.cmake
  COMMENT "Embedding the Lua modules" VERBATIM)

# ---- LuaJIT and libedit ----
pkg_check_modules(LUAJIT REQUIRED luajit)
pkg_get_variable(LUAJIT_LIBDIR luajit libdir)
find_library(LUAJIT_ARCHIVE NAMES libluajit-5.1.a HINTS ${LUAJIT_LIBDIR} ${LUAJIT_LIBRARY_DIRS} REQUIRED)
option(FA4_LIBEDIT "line editing at the prompt, where libedit is there" ON)
pkg_check_modules(LIBEDIT libedit)
find_library(LIBEDIT_ARCHIVE NAMES libedit.a HINTS ${LIBEDIT_LIBRARY_DIRS})
find_library(TINFO_ARCHIVE NAMES libtinfo.a)
find_library(BSD_ARCHIVE NAMES libbsd.a)
find_library(MD_ARCHIVE NAMES libmd.a)

add_executable(fa4_cli ${FA4_EMBEDDED} ${FA4_HOST_DIR}/main.c ${FA4_HOST_DIR}/state.c ${FA4_HOST_DIR}/signals.c
  ${FA4_HOST_DIR}/line.c $<TARGET_OBJECTS:fa4_objects>)
set_target_properties(fa4_cli PROPERTIES OUTPUT_NAME fa4 RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} ENABLE_EXPORTS ON)
target_include_directories(fa4_cli PRIVATE engine ${LUAJIT_INCLUDE_DIRS})
target_compile_definitions(fa4_cli PRIVATE FA4_VERSION_TEXT="${PROJECT_VERSION}" _GNU_SOURCE)
# C modules such as lfs take lua_* from the executable, so LuaJIT is linked whole too; of the other archives nothing is exported.
target_link_libraries(fa4_cli PRIVATE -Wl,--whole-archive ${LUAJIT_ARCHIVE} -Wl,--no-whole-archive
  Threads::Threads ZLIB::ZLIB m ${CMAKE_DL_LIBS})
if(NOT FA4_LIBEDIT)
  message(STATUS "FA4_LIBEDIT is off: the prompt reads plain lines")
elseif(LIBEDIT_ARCHIVE AND TINFO_ARCHIVE AND BSD_ARCHIVE AND MD_ARCHIVE)
  target_compile_definitions(fa4_cli PRIVATE FA4_HAVE_LIBEDIT)
  target_link_libraries(fa4_cli PRIVATE ${LIBEDIT_ARCHIVE} ${TINFO_ARCHIVE} ${BSD_ARCHIVE} ${MD_ARCHIVE})
  target_link_options(fa4_cli PRIVATE -Wl,--exclude-libs,libedit.a:libtinfo.a:libbsd.a:libmd.a)
elseif(LIBEDIT_FOUND)
  target_compile_definitions(fa4_cli PRIVATE FA4_HAVE_LIBEDIT)
  target_link_libraries(fa4_cli PRIVATE ${LIBEDIT_LINK_LIBRARIES})
else()
  message(STATUS "libedit not found: the prompt reads plain lines")
endif()

include(${FA4_HOST_DIR}/install.cmake)

# Drives the prompt on a pseudo-terminal, for spec/repl_spec.lua.
add_executable(fa4_pty spec/support/pty.c)
target_compile_definitions(fa4_pty PRIVATE _GNU_SOURCE)
target_link_libraries(fa4_pty PRIVATE util)
set_target_properties(fa4_pty PROPERTIES OUTPUT_NAME pty RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
