-- Takes and reservations of keys that are counted under one limit only, one after the other. Their values have a form that is quick
-- to read and to write. For other values see head.
--
-- KEYS[i]    the value of a key
-- ARGV[1]    the time, or '' for that of the server
-- ARGV[2-5]  the limit: its name with a '|', the units of all permits, A, B. See takebucket and takewindow
-- ARGV[6-7]  the form of a value, and the place of the time in it
-- ARGV[8..]  for each key, or once for all keys, the units to charge, below 0 to take up to so many, and the most that
--            may be in use afterwards
--
-- Reply: the time, then count, extra and charge for each key, as doubles. A count below 0 is a refusal: count is -1 minus
-- the count. A count of -2^53 says that only account can read the value.
--
-- Writes what was charged. If the clock went back, the unchanged count is rewritten, also by a refusal, so that it
-- recovers from then on. The value has the time at which its key expires: a key is set to expire later than
-- necessary, so that most writes can keep that time, which costs the server less.
local call, pcall, pack, unpack = redis.call, redis.pcall, struct.pack, struct.unpack
local limit, full, a, b, form, place = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local reply = {pack('<d', now)}
local units, most = tonumber(ARGV[8]), tonumber(ARGV[9])
for i = 1, #KEYS do
  local key, charge, room = KEYS[i], units, most
  if ARGV[2 * i + 6] then
    charge, room = tonumber(ARGV[2 * i + 6]), tonumber(ARGV[2 * i + 7])
  end
  DECIDE
  reply[i + 1] = pack('<ddd', count, extra, charge)
end
return table.concat(reply)
