-- A fixed window: full is N, A the period in µs, and B for aligned windows the offset added to a time, otherwise nothing.
-- The value is 'LIMIT|', and as doubles the time, when the key expires, the window start, and the permits taken in it,
-- with the reservations for later windows. count is the permits, extra is the start.
local start, used = nil, 0
if value then
  if #value == size + 32 and string.sub(value, 1, size) == limit then
    local at
    at, expires, start, used = struct.unpack('<dddd', value, size + 1)
    if at > now then
      behind, start = true, b and start <= at and math.min(start, now) or start - (at - now) + (b and a - 1 or 0)
    end
    if b then
      start = start - (start + b) % a
    end
    local n = math.floor((now - start) / a)
    start, used = start + n * a, used - n * full
    if n > 0 and used <= 0 then
      start, used = nil, 0
    end
  else
    count, extra = -9007199254740992, 0
  end
end
if not count then
  start = start or (b and now - (now + b) % a or now)
  if charge < 0 then
    charge = math.max(0, math.min(-charge, room - used))
  end
  local taken = used + charge <= room or charge == 0
  if taken then
    used = used + charge
  end
  count, extra = taken and used or -1 - used, start
  if behind or taken and charge > 0 then
    form, x, y = '<dddd', start, used
    over = start + math.max(1, math.ceil(used / full)) * a
    later = over
  end
end
