-- A take of one permit of one key. The numbers of the limit are part of the text: see many.
--
-- KEYS[1]  the value of the key
-- ARGV[1]  the time, for tests; without it, that of the server
--
-- Reply: the time, count and extra, as doubles.
local limit, full, a, b = LIMIT
local now = ARGV[1] and tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = (t[1] - 1577836800) * 1000000 + t[2]
end
local key, charge, room, size = KEYS[1], ONE, full, #limit
local value, expires, behind, count, extra, form, x, y, z, over, later = redis.pcall('GET', key), 0, false
DECIDE
return struct.pack('<ddd', now, count, extra)
