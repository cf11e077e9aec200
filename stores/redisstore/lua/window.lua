-- Decisions on single fixed windows, one after the other.
--
-- KEYS[i]        the value of a key. Those of one key stand beside each other, in the order in
--                which they are decided: it is read before the first, and written after the last
-- ARGV[1]        the time, or '' for that of the server
-- ARGV[4i-2..]   of KEYS[i]: kind, permits, period, cost. kind is the name of the limit in the
--                value. period is PERIOD+ZERO for windows that begin with the clock, where ZERO is
--                what to add to a time. cost is <COST to take as many as there are, ?COST to look
--
-- Reply: the time, then for each: what was taken, or -1 for a refusal, or -2 for a value
-- that decide has to read; when the window began; and what is taken in it, the
-- reservations for those after it included.
--
-- Writes what was admitted: 'KIND START USED PERMITS'. It expires with the last window that
-- is in use. When the clock went back to before a window, that begins now, and is written anew
-- as it was, also by a refusal and by a look.
local ceil, floor, max, min, format, match = math.ceil, math.floor, math.max, math.min, string.format, string.match
local call, tonumber, KEYS, ARGV = redis.call, tonumber, KEYS, ARGV
local get = redis.pcall -- a value of another type is not an error for all keys
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = (t[1] - 1577836800) * 1000000 + t[2]
end
local reply = {now}
local key, changed
local is, began, count, of, length -- what the value says; is is nil where there is none, false where it is another
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
  if KEYS[i] ~= key then
    key, changed, is = KEYS[i], false, nil
    local value = get('GET', key)
    if value then
      is, began, count, of = match(value.err or value, '^(%S+) (%d+) (%d+) (%d+)$')
      is, began, count, of = is or false, tonumber(began), tonumber(count), tonumber(of)
    end
  end
  local start, used, foreign, back = now, 0, is ~= nil and is ~= kind, false
  if is == kind then
    start, used = began, count
    if start > now then
      start, back = now, true
    end
    if now - start >= period then
      local over = floor((now - start) / period)
      start, used = start + over * period, used - over * of
      if used <= 0 then
        start, used = now, 0
      end
    end
    if of ~= permits and used > permits then
      used = permits
    end
  end
  if zero then
    start = start - (start + zero) % period
  end
  if foreign then
    cost = -2
  elseif mode == '<' then
    cost = max(0, min(cost, permits - used))
  elseif cost > 0 and used + cost > permits then
    cost = -1
  end
  if cost > 0 and mode ~= '?' then
    used = used + cost
    is, count, of, back = kind, used, permits, true
  end
  if back then
    began, length, changed = start, period, true
  end
  if changed and KEYS[i + 1] ~= key then
    local left = began + length - now
    if count > of then
      left = left + floor((count - 1) / of) * length
    end
    call('SET', key, format('%s %d %d %d', is, began, count, of), 'PX', ceil(left / 1000) + 1)
  end
  reply[3 * i - 1] = cost
  reply[3 * i] = start
  reply[3 * i + 1] = used
end
return reply
