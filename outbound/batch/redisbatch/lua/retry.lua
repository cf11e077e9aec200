-- Moves the failed records of a group to the end of the pending ones, and marks them as due: at most a
-- slice.
--
-- ARGV[2]  its option
--
-- Reply: how many it were, and whether there are more.
local opt = ARGV[2]
local f = base .. 'f:' .. opt
local entries, bytes = call('LRANGE', f, 0, slice - 1), 0
if #entries == 0 then
  return {0, 0}
end
for _, entry in ipairs(entries) do
  local _, size = parts(entry)
  bytes = bytes + size
end
relax()
call('LTRIM', f, #entries, -1)
push(base .. 'p:' .. opt, entries)
call('HINCRBY', base .. 'g:' .. opt, 'bytes', int(bytes))
call('HINCRBY', method, 'n', #entries)
mark(opt)
place(opt)
return {#entries, call('EXISTS', f)}
