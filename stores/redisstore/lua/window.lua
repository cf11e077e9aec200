-- f, a fixed window, and a, a window aligned to the clock. A is the period, B the offset added to a
-- time for the latter. State: 'USED START', the permits taken in the window and reserved in later windows, and
-- the window start.

-- align returns the start of the aligned window that contains a time.
local function align(t, period, zero)
  return zero and t - (t + zero) % period or t
end

-- roll returns the window at a time, or nil and 0 if the last one has ended. After a refund of all its permits it
-- still lasts to its end. Before a window that lies ahead, the windows count as full.
local function roll(start, used, permits, period, zero, t)
  start = align(start, period, zero) -- it began with the clock's time, if that went back
  local over = floor((t - start) / period)
  start, used = start + over * period, used - over * permits
  if over > 0 and used <= 0 then
    return nil, 0
  end
  return start, used
end

do
  local function zero(p)
    return p.k == 'a' and p.b
  end

  local function own(p, s)
    if not s.start then
      return align(now, p.a, zero(p)), 0
    elseif s.start > now then
      return roll(s.start, s.used, p.n, p.a, zero(p), now)
    end
    return s.start, s.used
  end

  -- place returns the first of cost permits: a cost is never split over two windows.
  local function place(p, used, cost)
    if used % p.n + cost > p.n then
      return ceil(used / p.n) * p.n
    end
    return used
  end

  local function placed(p, start, used, at, cost)
    return max(place(p, used, cost), floor((at - start) / p.a) * p.n)
  end

  local function first(p, cost, start, used)
    local ahead = floor(place(p, used, cost) / p.n)
    return ahead > 0 and max(now, start + ahead * p.a) or now
  end

  -- final returns the last window that is in use, and the permits used in it.
  local function final(p, start, used)
    local before = floor(max(0, used - 1) / p.n)
    return start + before * p.a, used - before * p.n
  end

  local function over(p, start, used)
    return start + max(1, ceil(used / p.n)) * p.a
  end

  A.f = {
    unpack = function(value, i)
      local used, start = struct.unpack('<dd', value, i)
      return {start = start, used = used}
    end,
    pack = function(_, s)
      return struct.pack('<dd', s.used, s.start)
    end,
    advance = function(p, s, at)
      local by = at - now
      if by > 0 and p.k == 'f' then
        s.start = s.start - by
      elseif by > 0 and s.start > at then -- a reserved window stays ahead
        s.start = align(s.start - by + p.a - 1, p.a, p.b)
      elseif by > 0 then
        s.start = align(min(s.start, now), p.a, p.b)
      end
      if s.start <= now then
        s.start, s.used = roll(s.start, s.used, p.n, p.a, zero(p), now)
        s.used = s.start and s.used
      end
    end,
    look = function(p, s)
      local start, used = own(p, s)
      local n = max(0, p.n - used)
      return n, n < p.n and first(p, n + 1, start, used) or now, used > 0 and over(p, start, used) or now
    end,
    first = function(p, s, cost)
      return first(p, cost, own(p, s))
    end,
    due = function(p, s)
      local start, used = own(p, s)
      if s.used == 0 and s.start > now then
        return s.start
      elseif used <= p.n then
        return now
      end
      return max(now, (final(p, start, used)))
    end,
    used = function(p, s, t)
      if not s.start then
        return 0, 1
      end
      local _, used = roll(s.start, s.used, p.n, p.a, zero(p), t)
      return used, 1
    end,
    put = function(p, t, num, den)
      local used = ceil(num / den)
      if used == 0 and t == now then
        return {}
      end
      local ahead = floor(max(0, used - 1) / p.n)
      local start = align(t + ahead * p.a, p.a, zero(p))
      if start < t and t > now then
        start = start + p.a
      end
      return {start = start, used = used - ahead * p.n}
    end,
    same = function(p, s, of)
      local start, used = final(of, own(of, s))
      return {start = start, used = min(used, p.n)}
    end,
    over = function(p, s)
      local start, used = own(p, s)
      if not s.start or used == 0 and p.k == 'a' then
        return now
      end
      return over(p, start, used)
    end,
    fits = function(p, s, at, cost)
      local start, used = own(p, s)
      return placed(p, start, used, at, cost) + cost <= 4 * p.n
    end,
    -- charge counts from the window that is on. A charge that lies beyond all that is in use begins a window of its own.
    charge = function(p, s, _, at, cost)
      local start, used = own(p, s)
      if at > now and (used == 0 or at > over(p, start, used)) then
        start, used = align(at, p.a, zero(p)), cost
      else
        used = placed(p, start, used, at, cost) + cost
      end
      s.start, s.used = start, used
      return (final(p, start, used))
    end,
    refund = function(p, s, _, receipt, cost)
      local start, used = own(p, s)
      local began, n = final(p, start, used)
      if used == 0 or receipt ~= began then
        return false -- it has ended, or there are reservations in a later one
      end
      s.start, s.used = start, used - min(cost, n)
      return true
    end,
  }
  A.a = A.f
end
