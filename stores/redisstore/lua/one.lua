-- A take of one permit of one key. The numbers of the limit are part of the text: see many.
--
-- KEYS[1]  the value of the key
-- ARGV[1]  the time, for tests; without it, that of the server
--
-- Reply: the time, count and extra, as doubles. For a granted take it is the text that was written, see takewrite: without
-- extra if that is 0, or with BACK too.
local call, pcall, pack, unpack = redis.call, redis.pcall, struct.pack, struct.unpack
local key, t = KEYS[1], call('TIME')
local now = ARGV[1] and ARGV[1] + 0 or (t[1] - 1577836800) * 1000000 + t[2]
local limit, full, a, b, form, place = LIMIT
local charge, room = ONE, full
DECIDE
return granted and text or pack('<ddd', now, count, extra)
