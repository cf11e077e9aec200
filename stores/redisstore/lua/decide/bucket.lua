-- b, a token bucket. Spec: permits is the burst, a the units in a tick, b those of a permit, c
-- the µs in a tick. State: 'AT DEBT MUL TICK', the debt at a time, in units of TICK/MUL µs.
do
  local most = 4503599627370496 -- 2^52, so that what is added stays exact

  local function debt(p, s)
    if not s.n then
      return 0
    end
    local d = max(0, s.debt - (floor(now / s.tick) - floor(s.at / s.tick)) * s.mul)
    if d == 0 or s.mul == p.a and s.tick == p.c then
      return d
    end
    local us = ceil(d / s.mul) * s.tick - now % s.tick -- it was kept in time
    return min(most, ceil(us / p.c) * p.a)
  end

  local function after(p, units)
    if units <= 0 then
      return 0
    end
    return ceil(units / p.a) * p.c - now % p.c
  end

  local function set(p, s, d)
    s.n, s.at, s.debt, s.mul, s.tick = p.n, now, d, p.a, p.c
  end

  A.b = {
    read = function(text)
      local at, d, mul, tick = match(text, '^(%d+) (%d+) (%d+) (%d+)$')
      local s = {n = 0, at = tonumber(at), debt = tonumber(d), mul = tonumber(mul), tick = tonumber(tick)}
      if s.at > now then
        s.at, s.back = now, true
      end
      return s
    end,
    write = function(s)
      return format('%d %d %d %d', s.at, s.debt, s.mul, s.tick)
    end,
    earliest = function(p, s, cost)
      return now + after(p, debt(p, s) + (cost - p.n) * p.b)
    end,
    fits = function(p, s, at, cost)
      return max(debt(p, s), ceil((at - now) / p.c) * p.a) + cost * p.b <= most
    end,
    charge = function(p, s, own, at, cost)
      local d = debt(p, s)
      if at > own then -- it may not fill until then
        d = max(d, (floor(at / p.c) - floor(now / p.c)) * p.a)
      end
      set(p, s, d + cost * p.b)
      return s.debt
    end,
    refund = function(p, s, at, receipt, cost)
      local d = debt(p, s)
      local unpaid = receipt - max(0, floor(now / p.c) - floor(at / p.c)) * p.a
      local charge = cost * p.b
      if d > p.n * p.b then -- others have places that lie ahead
        charge = charge - max(0, d - unpaid)
      end
      local back = max(0, min(charge, unpaid, d))
      if back > 0 then
        set(p, s, d - back)
      end
      return back > 0
    end,
    available = function(p, s)
      return floor(max(0, p.n * p.b - debt(p, s)) / p.b)
    end,
    full = function(p, s)
      return now + after(p, debt(p, s))
    end,
    over = function(_, s)
      if not s.n then
        return now
      end
      return max(now, (floor(s.at / s.tick) + ceil(s.debt / s.mul)) * s.tick)
    end,
    taken = function(p, s)
      return ceil(debt(p, s) / p.b)
    end,
    began = function()
      return huge
    end,
  }
end
