-- luacheck's settings: LuaJIT with busted's names in specs, lines of at most 140 columns.
std = "luajit"
max_line_length = 140
unused_args = false
files["spec"] = {std = "luajit+busted"}
files[".busted"] = {std = "luajit"}
files["spec/probes"] = {std = "luajit", max_line_length = false} -- long lines are instructions
