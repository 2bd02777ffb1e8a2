--- busted's own terminal report, and after it one line that machines read: `N passed, N failed[, N skipped]`. Errors count as
-- failures, or a spec that does not load would read as "0 failed".
return function(options)
  local busted = require "busted"
  local term = require "term"
  local terminal = io.type(io.stdout) == "file" and term.isatty(io.stdout)
  local name = terminal and not os.getenv("NO_COLOR") and "utfTerminal" or "plainTerminal"
  local handler = require("busted.outputHandlers." .. name)(options)
  local subscribe = handler.subscribe
  local passed, failed, skipped = 0, 0, 0

  handler.subscribe = function(self, given)
    subscribe(self, given)
    -- Subscribed last, so that it prints last. With --repeat the counters start anew each time.
    busted.subscribe({"suite", "end"}, function(_, run, total)
      passed = passed + handler.successesCount
      failed = failed + handler.failuresCount + handler.errorsCount
      skipped = skipped + handler.pendingsCount
      if (run or 1) == (total or 1) then
        io.write(("%d passed, %d failed%s\n"):format(passed, failed, skipped > 0 and (", %d skipped"):format(skipped) or ""))
        io.flush()
      end
      return nil, true
    end)
  end

  return handler
end
