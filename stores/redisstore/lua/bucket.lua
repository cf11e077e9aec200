-- Decisions on single token buckets, one after the other.
--
-- KEYS[i]        the value of a key. Those of one key stand beside each other, in the order in
--                which they are decided: it is read before the first, and written after the last
-- ARGV[1]        the time, or '' for that of the server
-- ARGV[4i-2..]   of KEYS[i]: charge, room, mul, mode. A µs has mul units; charge is what is
--                to be taken, in units, and room the debt up to which it may be taken.
--                mode: 0 takes all or nothing, -1 only looks, above 0 takes as many whole
--                permits of so many units as there are, up to charge
--
-- Reply: the time, then for each: what was taken, or -1 for a refusal, or -2 for a value
-- that decide has to read; and the debt after it.
--
-- Writes what was admitted: 'b AT DEBT MUL TICK' is a debt of DEBT units at the time AT, in
-- units of TICK/MUL µs. It expires when the debt is over. When the clock went back, the debt
-- is written anew as it was, also by a refusal and by a look, so that it is repaid from then on.
local ceil, floor, max, min, format, match = math.ceil, math.floor, math.max, math.min, string.format, string.match
local call, tonumber, KEYS, ARGV = redis.call, tonumber, KEYS, ARGV
local get = redis.pcall -- a value of another type is not an error for all keys
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = (t[1] - 1577836800) * 1000000 + t[2]
end
local reply = {now}
local key, foreign, back, changed
local owed, scale -- what the value says now, in its own units
for i = 1, #KEYS do
  local a = 4 * i - 2
  local charge, room, mul, mode = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3]
  if KEYS[i] ~= key then
    key, foreign, back, changed = KEYS[i], false, false, false
    owed, scale = 0, mul
    local value = get('GET', key)
    if value then
      local at, units, of = match(value.err or value, '^b (%d+) (%d+) (%d+) 1$')
      if at then
        local passed = now - at
        owed, scale, back = tonumber(units), tonumber(of), passed < 0
        if passed > 0 then
          owed = max(0, owed - passed * scale)
        end
      else
        foreign = true
      end
    end
  end
  local debt = owed
  if scale ~= mul then
    debt = min(ceil(owed / scale) * mul, 4503599627370496)
  end
  if foreign then
    charge = -2
  elseif mode == '0' or mode == '-1' then
    if charge > 0 and debt + charge > room then
      charge = -1
    end
  else
    local step = tonumber(mode)
    charge = max(0, min(charge, floor((room - debt) / step) * step))
  end
  if charge > 0 and mode ~= '-1' then
    debt = debt + charge
    owed, scale, back = debt, mul, true
  end
  if back then
    back, changed = false, true
  end
  if changed and KEYS[i + 1] ~= key then
    call('SET', key, format('b %d %d %d 1', now, owed, scale), 'PX', ceil(owed / scale / 1000) + 1)
  end
  reply[2 * i] = charge
  reply[2 * i + 1] = debt
end
return reply
