-- The arithmetic of a sliding counter with n permits in a period a: see counter.

-- muldiv is a*b/c, rounded down, and the rest; a <= c < 2^48, b < 2^48. It divides by long
-- division, four bits at a time, where the product is not exact.
local function muldiv(a, b, c)
  if a * b < 9007199254740992 then
    local q = floor(a * b / c)
    return q, a * b - q * c
  end
  local q, r, digit = 0, 0, 17592186044416
  while digit >= 1 do
    r = r * 16 + a * (floor(b / digit) % 16)
    local d = floor(r / c)
    q, r, digit = q * 16 + d, r - d * c, digit / 16
  end
  return q, r
end

-- share returns how long before the end of a window the usage of the one before weighs room.
local function share(a, room, of)
  if of <= room then
    return a
  end
  return (muldiv(room, a, of))
end

-- weigh returns how many permits are used at a time in the window.
local function weigh(a, t, start, before, used)
  local weight, rest = muldiv(start + a - t, before, a)
  return used + weight + (rest > 0 and 1 or 0)
end

-- earliest returns the first time, t or later, at which a cost can be taken.
local function earliest(n, a, cost, t, start, before, used)
  local room = n - used - cost
  if room >= 0 then
    return max(t, start + a - share(a, room, before))
  end
  return max(now, start + 2 * a - share(a, n - cost, used))
end
