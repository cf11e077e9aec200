-- A token bucket: full is a full one, in units, A the units in a µs, and B those of a permit. The value is 'LIMIT|', and
-- as doubles the time, when the key expires, the debt and, if MOVED is not 0, MOVED and BACK: see bucket. count is the
-- debt, extra is MOVED.
local debt, moved, back = 0, 0, 0
if value then
  local length, at = #value - size, nil
  if length == 24 and string.sub(value, 1, size) == limit then
    at, expires, debt = struct.unpack('<ddd', value, size + 1)
  elseif length == 40 and string.sub(value, 1, size) == limit then
    at, expires, debt, moved, back = struct.unpack('<ddddd', value, size + 1)
  end
  if not at then
    count, extra = -9007199254740992, 0
  elseif at > now then
    local units = math.min((at - now) * a, 2 * full, 1125899906842624 - moved)
    moved, back, behind = moved + units, back + units, true
  else
    local passed, whole = (now - at) * a, debt + moved
    debt = math.max(0, debt - passed)
    if moved > 0 then
      moved = math.max(0, whole - passed) - debt
    end
  end
end
if not count then
  if charge < 0 then
    charge = math.max(0, math.min(-charge, math.floor((room - debt) / b) * b))
  end
  local taken = debt + charge <= room or charge == 0
  if taken then
    debt = debt + charge
  end
  count, extra = taken and debt or -1 - debt, moved
  if behind or taken and charge > 0 then
    local rest = (debt + moved) / a
    form, x, y, z = moved > 0 and '<ddddd' or '<ddd', debt, moved, back
    over, later = now + rest, now + math.ceil(2 * rest) + 1000000
  end
end
