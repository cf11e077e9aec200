-- Decisions on single token buckets, each with a key of its own.
--
-- KEYS[i]        the value of a key
-- ARGV[1]        the time, or '' for that of the server
-- ARGV[4i-2..]   of KEYS[i]: charge, room, mul, mode. A µs has mul units; charge is what is
--                to be taken, in units, and room the debt up to which it may be taken.
--                mode: 0 takes all or nothing, -1 only looks, above 0 takes as many whole
--                permits of so many units as there are, up to charge
--
-- Reply: the time, then for each key: what was taken, or -1 for a refusal, or -2 for a value
-- that decide.lua has to read; and the debt after it.
--
-- Writes what was admitted: 'b AT DEBT MUL TICK' is a debt of DEBT units at the time AT, in
-- units of TICK/MUL µs. It expires when the debt is over. When the clock went back, the debt
-- is written anew as it was, also by a refusal, so that it is repaid from then on.
local ceil, call = math.ceil, redis.call
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = (t[1] - 1577836800) * 1000000 + t[2]
end
local reply = {now}
for i = 1, #KEYS do
  local a = 4 * i - 2
  local charge, room, mul, mode = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3]
  local debt, foreign, back = 0, false, false
  local value = call('GET', KEYS[i])
  if value then
    local at, units, scale = string.match(value, '^b (%d+) (%d+) (%d+) 1$')
    if at then
      local passed = now - at
      debt, scale = tonumber(units), tonumber(scale)
      if passed > 0 then
        debt = debt - passed * scale
        if debt < 0 then debt = 0 end
      end
      back = passed < 0
      if scale ~= mul then
        debt = math.min(ceil(debt / scale) * mul, 4503599627370496)
      end
    else
      foreign = true
    end
  end
  if foreign then
    charge = -2
  elseif mode == '0' or mode == '-1' then
    if charge > 0 and debt + charge > room then
      charge = -1
    end
  else
    local step = tonumber(mode)
    charge = math.max(0, math.min(charge, math.floor((room - debt) / step) * step))
  end
  if charge > 0 and mode ~= '-1' then
    debt, back = debt + charge, true
  end
  if back then
    call('SET', KEYS[i], string.format('b %d %d %d 1', now, debt, mul), 'PX', ceil(debt / mul / 1000) + 1)
  end
  reply[2 * i] = charge
  reply[2 * i + 1] = debt
end
return reply
