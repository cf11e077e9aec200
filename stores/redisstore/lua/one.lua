-- A take of one permit of one key. The numbers of the limit are part of the text: see many.
--
-- KEYS[1]  the value of the key
-- ARGV[1]  the time, for tests; without it, that of the server
--
-- Reply: the time, count and extra, as doubles; of a granted take it is what was written. Without extra, that is 0.
local call, pcall, pack, unpack = redis.call, redis.pcall, struct.pack, struct.unpack
local key, t = KEYS[1], call('TIME')
local now = ARGV[1] and ARGV[1] + 0 or (t[1] - 1577836800) * 1000000 + t[2]
local limit, full, a, b, form, place = LIMIT
local charge, room = ONE, full
DECIDE
return granted and text or pack('<ddd', now, count, extra)
