-- A fixed window: full is N, A the period in µs, and B for aligned windows the offset added to a time, otherwise nothing.
-- The value is 'LIMIT|', and as doubles the time, when the key expires, the window start, and the permits taken in it,
-- with the reservations for later windows. count is the permits, extra is the start.
local start, used, expires, behind = nil, 0, 0, false
if value then
  if #value == size + 32 and string.sub(value, 1, size) == limit then
    local at
    at, expires, start, used = struct.unpack('<dddd', value, size + 1)
    if at > now then
      behind, start = true, b and math.min(start, now) or start - (at - now)
    end
    if b then
      start = start - (start + b) % a
    end
    local over = math.floor((now - start) / a)
    start, used = start + over * a, used - over * full
    if over > 0 and used <= 0 then
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
    local over = start + math.max(1, math.ceil(used / full)) * a
    local keep = not behind and over <= expires
    if not keep then
      expires = over
    end
    value = limit .. struct.pack('<dddd', now, expires, start, used)
    if keep then
      redis.call('SET', key, value, 'KEEPTTL')
    else
      redis.call('SET', key, value, 'PX', math.ceil((expires - now) / 1000) + 1)
    end
  end
end
