-- Decisions on keys whose only count is a token bucket, one after the other.
--
-- KEYS[i]        the value of a key. Entries of one key are adjacent, in the order of their
--                decisions: the value is read before the first, and written after the last
-- ARGV[5i-3..]   of KEYS[i]: charge, full, mul, mode, limit. A µs has mul units; charge is the
--                cost, in units, and full the highest debt after the take.
--                mode: 0 takes all or nothing, -1 only looks, above 0 takes as many whole
--                permits of so many units as there are, up to charge
--
-- Reply: the time, then for each entry: the permits taken, or -1 for a refusal, or -2 for a value
-- that account must read; and the debt after it.
--
-- Writes admitted takes: see head. If the clock went back, the unchanged debt is rewritten, also by a
-- refusal and by a look, so that it recovers from then on.
local reply = {now}
local key, is, at, units, back, debt -- parsed from the value; debt is as of now, if it was needed
local left -- time until the debt to be written has recovered, in ms
for i = 1, #KEYS do
  local a = 5 * i - 3
  local charge, full, mul, mode, limit = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3], ARGV[a + 4]
  if KEYS[i] ~= key then
    key, is, back, debt, left = KEYS[i], nil, false, nil, nil
    local value = pcall('GET', key) -- a value of another type is not an error for all keys
    if value then
      at, is, units = match(value.err or value, '^(%d+)|(%S+) (%d+)|$')
      is, at = is or '', tonumber(at)
    end
  end
  local foreign = is and is ~= limit
  if not foreign and not debt then
    debt = 0
    if is then
      back, debt = at > now, owed(tonumber(units), min(at, now), now, mul, 1)
    end
  end
  if foreign then
    charge = -2
  elseif mode == '0' or mode == '-1' then
    if charge > 0 and excess(debt, charge, full) > 0 then
      charge = -1
    end
  else
    local step = tonumber(mode)
    charge = max(0, min(charge, floor((full - debt) / step) * step))
  end
  if charge > 0 and mode ~= '-1' then
    debt, is, back = debt + charge, limit, true
  end
  if back then
    back, left = false, ceil(debt / mul / 1000) + 1
  end
  if left and KEYS[i + 1] ~= key then
    call('SET', key, format('%d|%s %d|', now, is, debt), 'PX', left)
  end
  reply[2 * i] = charge
  reply[2 * i + 1] = foreign and 0 or debt
end
return reply
