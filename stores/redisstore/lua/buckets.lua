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
-- that account must read; the debt after it; and MOVED of it, see bucket.
--
-- Writes admitted takes: see head. If the clock went back, the unchanged debt is rewritten, also by a
-- refusal and by a look, so that it recovers from then on.
local reply = {now}
local key, is, at, units, moved, back, rewrite, debt -- parsed from the value; debt and moved are as of now, if they were needed
local left -- time until the debt to be written has recovered, in ms
for i = 1, #KEYS do
  local a = 5 * i - 3
  local charge, full, mul, mode, limit = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), ARGV[a + 3], ARGV[a + 4]
  if KEYS[i] ~= key then
    key, is, rewrite, debt, left = KEYS[i], nil, false, nil, nil
    local value = pcall('GET', key) -- a value of another type is not an error for all keys
    if value then
      at, is, units, moved, back = match(value.err or value, '^(%d+)|(%S+) (%d+) ?(%d*) ?(%d*)|$')
      is, at, moved, back = is or '', tonumber(at), tonumber(moved) or 0, tonumber(back) or 0
    end
  end
  local foreign = is and is ~= limit
  if not foreign and not debt then
    debt = 0
    if is then
      rewrite, debt = at > now, owed(tonumber(units), min(at, now), now, mul, 1)
      if rewrite then
        local permits, cost = match(limit, '^b:(%d+):%d+:(%d+)')
        moved, back = stepped(moved, back, (at - now) * mul, permits * cost)
      elseif moved > 0 then
        moved = owed(units + moved, at, now, mul, 1) - debt
      end
    else
      moved = 0
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
    debt, is, rewrite = debt + charge, limit, true
  end
  if rewrite then
    rewrite, left = false, ceil((debt + moved) / mul / 1000) + 1
  end
  if left and KEYS[i + 1] ~= key then
    local text = moved > 0 and '%d|%s %d %d %d|' or '%d|%s %d|'
    call('SET', key, format(text, now, is, debt, moved, back), 'PX', left)
  end
  reply[3 * i - 1] = charge
  reply[3 * i] = foreign and 0 or debt
  reply[3 * i + 1] = foreign and 0 or moved
end
return reply
