-- Decisions on keys whose only count is a fixed window, one after the other.
--
-- KEYS[i]        the value of a key. Entries of one key are adjacent, in the order of their
--                decisions: the value is read before the first, and written after the last
-- ARGV[4i-2..]   of KEYS[i]: limit, permits, period, cost. period is PERIOD+ZERO for aligned
--                windows, where ZERO is the offset added to a time. cost is <COST to take
--                as many as there are, ?COST to look
--
-- Reply: the time, then for each entry: the permits taken, or -1 for a refusal, or -2 for a value
-- that account must read; the window start; and the permits taken in the window, with the
-- reservations for later windows.
--
-- Writes admitted takes: see head. If the clock went back, the unchanged window is rewritten, also by
-- a refusal and by a look.
local reply = {now}
local key, is, began, count, back -- parsed from the value
local left -- remaining time of the window to be written, in ms
for i = 1, #KEYS do
  local a = 4 * i - 2
  local limit, permits, period, cost = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local zero, mode
  if not period then
    period, zero = match(ARGV[a + 2], '^(%d+)%+(%d+)$')
    period = tonumber(period)
  end
  if not cost then
    mode, cost = match(ARGV[a + 3], '^([<?])(%d+)$')
    cost = tonumber(cost)
  end
  if KEYS[i] ~= key then
    key, is, back, left = KEYS[i], nil, false, nil
    local value = pcall('GET', key) -- a value of another type is not an error for all keys
    if value then
      local at
      at, is, began, count = match(value.err or value, '^(%d+)|(%S+) (%-?%d+) (%d+)|$')
      is = is or ''
      if at then
        at, began, count = tonumber(at), tonumber(began), tonumber(count)
        if at > now then
          back = at - now
        end
      end
    end
  end
  local start, used
  if back and is == limit then
    began = zero and min(began, now) or began - back
  end
  if is == limit then
    start, used = roll(began, count, permits, period, zero, now)
  end
  start, used = start or align(now, period, zero), used or 0
  if is and is ~= limit then
    cost = -2
  elseif mode == '<' then
    cost = max(0, min(cost, permits - used))
  elseif cost > 0 and used + cost > permits then
    cost = -1
  end
  if cost > 0 and mode ~= '?' then
    used = used + cost
    is, back = limit, true
  end
  if back and cost ~= -2 then
    began, count, back = start, used, false
    left = ceil((began + max(1, ceil(count / permits)) * period - now) / 1000) + 1
  end
  if left and KEYS[i + 1] ~= key then
    call('SET', key, format('%d|%s %d %d|', now, is, began, count), 'PX', left)
  end
  reply[3 * i - 1] = cost
  reply[3 * i] = start
  reply[3 * i + 1] = used
end
return reply
