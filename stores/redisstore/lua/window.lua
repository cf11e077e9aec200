-- Decisions on single fixed windows, each with a key of its own.
--
-- KEYS[i]        the value of a key
-- ARGV[1]        the time, or '' for that of the server
-- ARGV[4i-2..]   of KEYS[i]: kind, permits, period, cost. kind is the name of the limit in the
--                value. period is PERIOD+ZERO for windows that begin with the clock, where ZERO is
--                what to add to a time. cost is <COST to take as many as there are, ?COST to look
--
-- Reply: the time, then for each key: what was taken, or -1 for a refusal, or -2 for a value
-- that decide.lua has to read; when the window began; and what is taken in it, the
-- reservations for those after it included.
--
-- Writes what was admitted: 'KIND START USED PERMITS'. It expires with the last window that
-- is in use. When the clock went back to before a window, that begins
-- now, and is written anew, also by a refusal.
local call, match = redis.call, string.match
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = (t[1] - 1577836800) * 1000000 + t[2]
end
local reply = {now}
for i = 1, #KEYS do
  local a = 4 * i - 2
  local kind, permits, period, cost = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local zero, mode
  if not period then
    period, zero = match(ARGV[a + 2], '^(%d+)%+(%d+)$')
    period = tonumber(period)
  end
  if not cost then
    mode, cost = match(ARGV[a + 3], '^([<?])(%d+)$')
    cost = tonumber(cost)
  end
  local start, used, foreign, back = now, 0, false, false
  local value = call('GET', KEYS[i])
  if value then
    local is, began, count, of = match(value, '^(%S+) (%d+) (%d+) (%d+)$')
    if is == kind then
      began, count, of = tonumber(began), tonumber(count), tonumber(of)
      if began > now then
        began, back = now, true
      end
      if now - began >= period then
        local over = math.floor((now - began) / period)
        began, count = began + over * period, count - over * of
      end
      if count > 0 then
        start, used = began, count
        if of ~= permits and used > permits then
          used = permits
        end
      end
    else
      foreign = true
    end
  end
  if zero then
    start = start - (start + zero) % period
  end
  if foreign then
    cost = -2
  elseif mode == '<' then
    cost = math.max(0, math.min(cost, permits - used))
  elseif cost > 0 and used + cost > permits then
    cost = -1
  end
  if cost > 0 and mode ~= '?' then
    used, back = used + cost, true
  end
  if back then
    local left = start + period - now
    if used > permits then
      left = left + math.floor((used - 1) / permits) * period
    end
    call('SET', KEYS[i], string.format('%s %d %d %d', kind, start, used, permits), 'PX', math.ceil(left / 1000) + 1)
  end
  reply[3 * i - 1] = cost
  reply[3 * i] = start
  reply[3 * i + 1] = used
end
return reply
