-- f, a fixed window, and a, a window aligned to the clock. A is the period, B the offset added to a
-- time for the latter. State: 'START USED', the window start, and the permits taken in the window and
-- reserved in later windows.

-- align returns the start of the aligned window that contains a time.
local function align(t, period, zero)
  return zero and t - (t + zero) % period or t
end

-- roll returns the current window, or nil and 0 if it has ended. After a refund of all its permits it
-- still lasts to its end.
local function roll(start, used, permits, period, zero)
  start = align(start, period, zero) -- it began with the clock's time, if that went back
  local over = floor((now - start) / period)
  start, used = start + over * period, used - over * permits
  if over > 0 and used <= 0 then
    return nil, 0
  end
  return start, used
end

if A then
  local function last(p, s)
    if not s.start then
      return nil, 0
    end
    return roll(s.start, s.used, p.n, p.a, p.k == 'a' and p.b)
  end

  local function own(p, s)
    local start, used = last(p, s)
    return start or align(now, p.a, p.k == 'a' and p.b), used
  end

  -- place returns the first of cost permits: a cost is never split over two windows.
  local function place(p, used, cost)
    if used % p.n + cost > p.n then
      return ceil(used / p.n) * p.n
    end
    return used
  end

  local function placeAt(p, start, used, at, cost)
    return max(place(p, used, cost), floor((at - start) / p.a) * p.n)
  end

  A.f = {
    read = function(text)
      local start, used = match(text, '^(%-?%d+) (%d+)$')
      return {start = tonumber(start), used = tonumber(used)}
    end,
    write = function(_, s)
      return format('%d %d', s.start, s.used)
    end,
    shift = function(s, by, p)
      s.start = p.k == 'a' and min(s.start, now) or s.start - by
    end,
    look = function(p, s)
      local start, used = own(p, s)
      return start, used, 0, 0
    end,
    available = function(p, s)
      local _, used = own(p, s)
      return max(0, p.n - used)
    end,
    full = function(p, s)
      local start, used = own(p, s)
      return used > 0 and start + ceil(used / p.n) * p.a or now
    end,
    over = function(p, s)
      local start, used = last(p, s)
      if not start or used == 0 and p.k == 'a' then
        return now
      end
      return start + max(1, ceil(used / p.n)) * p.a
    end,
    earliest = function(p, s, cost)
      local start, used = own(p, s)
      local ahead = floor(place(p, used, cost) / p.n)
      if ahead > 0 then
        return max(now, start + ahead * p.a)
      end
      return now
    end,
    fits = function(p, s, at, cost)
      local start, used = own(p, s)
      return placeAt(p, start, used, at, cost) + cost <= 4 * p.n
    end,
    charge = function(p, s, _, at, cost)
      local start, used = own(p, s)
      s.start, s.used = start, placeAt(p, start, used, at, cost) + cost
      return start + floor((s.used - 1) / p.n) * p.a -- the window it is in
    end,
    refund = function(p, s, _, receipt, cost)
      local start, used = own(p, s)
      local on = floor(max(0, used - 1) / p.n)
      if used == 0 or receipt ~= start + on * p.a then
        return false -- it has ended, or there are reservations in a later one
      end
      s.start, s.used = start, used - min(cost, used - on * p.n)
      return true
    end,
  }
  A.a = A.f
end
