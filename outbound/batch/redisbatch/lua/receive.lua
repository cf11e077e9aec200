-- Returns replies to a process.
--
-- ARGV[2]  the process
-- ARGV[3]  how many replies it has received, which are removed
-- ARGV[4]  how the last of these begins: if it is not there, they are removed already
-- ARGV[5]  how many replies at most
-- ARGV[6]  how many bytes they have, but for the last one
local inbox, seen, most, bytes = base .. 'a:' .. ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6])
if seen > 0 and sub(call('LINDEX', inbox, seen - 1) or '', 1, #ARGV[4]) == ARGV[4] then
  call('LTRIM', inbox, seen, -1)
end
local found = {}
while #found < most and bytes > 0 do
  local text = call('LINDEX', inbox, #found)
  if not text then
    break
  end
  found[#found + 1], bytes = text, bytes - #text
end
return found
