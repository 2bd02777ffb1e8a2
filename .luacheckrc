-- luacheck's settings: LuaJIT with busted's names in specs, lines of at most 140 columns.
std = "luajit"
max_line_length = 140
unused_args = false
files["spec"] = {std = "luajit+busted", max_line_length = false} -- long lines are texts that are looked for
files["scripts/mutants.lua"] = {max_line_length = false} -- a mutant a line
files[".busted"] = {std = "luajit"}
files["spec/probes"] = {std = "luajit", max_line_length = false} -- long lines are instructions
