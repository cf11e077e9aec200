-- b, a token bucket. N is the burst, A the units in a tick, B those of a permit, C the µs in a
-- tick, D the period in ns. State: DEBT, in units, at the time at which the value was written.

-- owed returns a debt of one time as of another time.
local function owed(debt, at, t, mul, tick)
  return max(0, debt - (floor(t / tick) - floor(at / tick)) * mul)
end

-- excess returns by how much a charge exceeds the available permits.
local function excess(debt, charge, full)
  return debt + charge - full
end

if A then
  local most = 4503599627370496 -- 2^52, so that sums stay exact

  local function debt(p, s)
    if not s.debt then
      return 0
    end
    return owed(s.debt, s.at, now, p.a, p.c)
  end

  local function after(p, units)
    if units <= 0 then
      return 0
    end
    return ceil(units / p.a) * p.c - now % p.c
  end

  A.b = {
    read = function(text, at)
      return {debt = tonumber(text), at = at}
    end,
    write = function(p, s)
      return format('%d', debt(p, s))
    end,
    shift = function(s, by)
      s.at = s.at - by
    end,
    look = function(p, s)
      return debt(p, s), 0, 0, 0
    end,
    available = function(p, s)
      return floor(max(0, p.n * p.b - debt(p, s)) / p.b)
    end,
    full = function(p, s)
      return now + after(p, debt(p, s))
    end,
    earliest = function(p, s, cost)
      return now + after(p, excess(debt(p, s), cost * p.b, p.n * p.b))
    end,
    fits = function(p, s, at, cost)
      return max(debt(p, s), ceil((at - now) / p.c) * p.a) + cost * p.b <= most
    end,
    charge = function(p, s, own, at, cost)
      local d = debt(p, s)
      if at > own then -- a reservation: the bucket is not full before it
        d = max(d, (floor(at / p.c) - floor(now / p.c)) * p.a)
      end
      s.debt, s.at = d + cost * p.b, now
      return s.debt
    end,
    refund = function(p, s, at, receipt, cost)
      local d = debt(p, s)
      local unpaid = receipt - max(0, floor(now / p.c) - floor(at / p.c)) * p.a
      local charge = cost * p.b
      if d > p.n * p.b then -- other reservations lie ahead
        charge = charge - max(0, d - unpaid)
      end
      local back = max(0, min(charge, unpaid, d))
      s.debt, s.at = d - back, now
      return back > 0
    end,
  }
  A.b.over = A.b.full
end
