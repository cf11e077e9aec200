-- b, a token bucket. N is the burst, A the units in a tick, B those of a permit, C the µs in a
-- tick, D the period in ns. State: 'DEBT' or 'DEBT MOVED BACK', in units, at the time at which the
-- value was written. A receipt is the debt after a take, as it would be without refunds: the takes after a
-- refunded one are moved forward, but their receipts are not. MOVED is by how much; it is kept until
-- the bucket would be full without the refunds, and then no receipt has permits left to give back.
-- BACK is the part of it by which the clock went back: takes from before it are older than they seem.

local most = 4503599627370496 -- 2^52, so that sums stay exact

do
  -- after returns the time at which a number of units has recovered.
  local function after(p, units)
    return units > 0 and now + ceil(units / p.a) * p.c - now % p.c or now
  end

  -- ahead returns by how many units a time lies ahead.
  local function ahead(p, t)
    return (ceil(t / p.c) - floor(now / p.c)) * p.a
  end

  A.b = {
    unpack = function(value, i, size)
      if size == 8 then
        return {debt = struct.unpack('<d', value, i), moved = 0, back = 0}
      end
      local debt, moved, back = struct.unpack('<ddd', value, i)
      return {debt = debt, moved = moved, back = back}
    end,
    pack = function(_, s)
      return struct.pack(s.moved > 0 and '<ddd' or '<d', s.debt, s.moved, s.back)
    end,
    advance = function(p, s, at)
      local units = (floor(now / p.c) - floor(at / p.c)) * p.a
      if units < 0 then
        units = min(-units, 2 * p.n * p.b, most / 4 - s.moved) -- after two buckets all takes have recovered
        s.moved, s.back = s.moved + units, s.back + units
        return
      end
      local d = max(0, s.debt - units)
      s.debt, s.moved = d, max(0, s.debt + s.moved - units) - d
    end,
    look = function(p, s)
      local d = s.debt or 0
      local n = floor(max(0, p.n * p.b - d) / p.b)
      return n, n < p.n and after(p, d + (n + 1 - p.n) * p.b) or now, after(p, d)
    end,
    first = function(p, s, cost)
      return after(p, (s.debt or 0) + (cost - p.n) * p.b)
    end,
    due = function(p, s)
      return after(p, (s.debt or 0) - p.n * p.b)
    end,
    used = function(p, s, t)
      return max(0, (s.debt or 0) - (floor(t / p.c) - floor(now / p.c)) * p.a), p.b
    end,
    put = function(p, t, num, den)
      local n = floor(num / den)
      local rest = (num - n * den) * p.b
      local d = n * p.b + ceil(rest / den + (rest < 9007199254740992 and 0 or 1)) -- rounded up where it is not exact
      d = d + ahead(p, t)
      return d <= most and {debt = d, moved = 0, back = 0}
    end,
    -- hold empties a bucket at a time that lies ahead, so that nothing is taken before.
    hold = function(p, s, t)
      s.debt = max(s.debt, min(most, ahead(p, t) + p.n * p.b))
    end,
    over = function(p, s)
      return after(p, s.debt and s.debt + s.moved or 0)
    end,
    fits = function(p, s, at, cost)
      return max(s.debt or 0, ahead(p, at)) + cost * p.b <= most
    end,
    charge = function(p, s, own, at, cost)
      local d, moved = s.debt or 0, s.moved or 0
      if at > own then -- a reservation: the bucket is not full before it
        d = max(d, ahead(p, at))
      end
      s.debt, s.moved, s.back = d + cost * p.b, moved, moved > 0 and s.back or 0
      return s.debt + moved
    end,
    -- refund gives back one of two parts, of which each is never too much: the debt without all that
    -- was taken after the take, refunded or not; and, the charge without all that has recovered since.
    refund = function(p, s, at, receipt, cost)
      local d, moved, full, charge = s.debt, s.moved, p.n * p.b, cost * p.b
      local since = max(-full, (floor(now / p.c) - floor(at / p.c)) * p.a)
      local unpaid = receipt - moved - since
      local later = d - unpaid
      if later < 0 then
        return false -- the key does not know of the take
      end
      local part = max(unpaid, charge - max(0, since) - s.back)
      if d > full then -- other reservations lie ahead
        charge = charge - later
      end
      local n = min(charge, part, d)
      if later > 0 then
        n = min(n, most / 4 - moved)
        moved = moved + n
      end
      if n <= 0 then
        return false
      end
      s.debt, s.moved = d - n, moved
      return true
    end,
  }
end
