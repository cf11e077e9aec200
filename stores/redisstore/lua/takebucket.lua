-- A token bucket: full is a full one, in units, A the units in a µs, and B those of a permit. The state is the debt and, if
-- MOVED is not 0, MOVED and BACK: see bucket. count is the debt, extra is MOVED.
local value, debt, moved, back, expires, count, extra, granted, behind, text, over, later = pcall('GET', key), 0, 0, 0, 0
if value then
  local size, name, at = #value - #limit, nil, nil
  if size == 24 then
    name, expires, at, debt = unpack(form, value)
  elseif size == 40 then
    name, expires, at, debt, moved, back = unpack(form .. 'dd', value)
  end
  if name ~= limit then
    count, extra = -9007199254740992, 0
  elseif at > now then
    local units = math.min((at - now) * a, 2 * full, 1125899906842624 - moved)
    moved, back, expires, behind = moved + units, back + units, 0, true
  else
    local passed, whole = (now - at) * a, debt + moved
    debt = passed < debt and debt - passed or 0
    if moved > 0 then
      moved = math.max(0, whole - passed) - debt
      expires = moved > 0 and expires or 0 -- the state is shorter
    end
  end
end
if not count then
  if charge < 0 then
    charge = math.max(0, math.min(-charge, math.floor((room - debt) / b) * b))
  end
  if debt + charge <= room or charge == 0 then
    debt = debt + charge
    count, granted = debt, charge > 0
  else
    count = -1 - debt
  end
  extra = moved
  if granted or behind then
    if moved > 0 then
      text = pack('<dddd', now, debt, moved, back)
    else
      text = pack('<dd', now, debt)
    end
    over = now + (debt + moved) / a
    later = 2 * over - now + 1000000
  end
end
