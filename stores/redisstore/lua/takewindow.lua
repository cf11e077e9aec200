-- A fixed window: full is N, A the period in µs, and B for aligned windows the offset added to a time, otherwise nothing.
-- The state is the permits taken, with the reservations for later windows, and the window start. count is the permits, extra
-- is the start.
local value, used, expires, start, count, extra, granted, behind, text, over, later = pcall('GET', key), 0, 0
if value then
  local name, at
  if #value - #limit == 32 then
    name, expires, at, used, start = unpack(form, value)
  end
  if name ~= limit then
    count, extra = -9007199254740992, 0
  else
    if at > now then
      expires, behind, start = 0, true, b and start <= at and math.min(start, now) or start - (at - now) + (b and a - 1 or 0)
    end
    if b then
      start = start - (start + b) % a
    end
    local passed = now - start
    local n = (passed - passed % a) / a
    start, used = start + n * a, used - n * full
    if n > 0 and used <= 0 then
      start, used = nil, 0
    end
  end
end
if not count then
  start = start or (b and now - (now + b) % a or now)
  if charge < 0 then
    charge = math.max(0, math.min(-charge, room - used))
  end
  if used + charge <= room or charge == 0 then
    used = used + charge
    count, granted = used, charge > 0
  else
    count = -1 - used
  end
  extra = start
  if granted or behind then
    text = pack('<ddd', now, used, start)
    over = start + (used > full and math.ceil(used / full) or 1) * a
    later = over
  end
end
