-- f, a fixed window, and a, one that begins with the clock. Spec: a is the period, b what to
-- add to a time for the latter. State: 'START USED PERMITS', when the window began, what is
-- taken in it and reserved in those after it, and how many permits each has.
do
  local function begin(p, t)
    if p.b >= 0 then
      return t - (t + p.b) % p.a
    end
    return t
  end

  -- last is the window that is on for the spec that wrote it, or nil and 0 if it has ended. It
  -- lasts to its end also if nothing is used of it, after a refund.
  local function last(p, s)
    if not s.n then
      return nil, 0
    end
    local start, used = begin(p, s.start), s.used -- it began with the clock's time, if that went back
    local over = floor((now - start) / p.a)
    start, used = start + over * p.a, used - over * s.n
    if over > 0 and used <= 0 then
      return nil, 0
    end
    return start, used
  end

  -- own is last or a new window; of is own for p.
  local function own(p, s)
    local start, used = last(p, s)
    return start or begin(p, now), used
  end

  local function of(p, s)
    local start, used = own(p, s)
    if s.n and s.n ~= p.n then
      used = min(used, p.n)
    end
    return start, used
  end

  -- place is the first of cost permits: a cost is never split over two windows.
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
      local start, used, n = match(text, '^(%d+) (%d+) (%d+)$')
      local s = {n = tonumber(n), start = tonumber(start), used = tonumber(used)}
      if s.start > now then
        s.start, s.back = now, true
      end
      return s
    end,
    write = function(s)
      return format('%d %d %d', s.start, s.used, s.n)
    end,
    earliest = function(p, s, cost)
      local start, used = of(p, s)
      local ahead = floor(place(p, used, cost) / p.n)
      if ahead > 0 then
        return max(now, start + ahead * p.a)
      end
      return now
    end,
    fits = function(p, s, at, cost)
      local start, used = of(p, s)
      if s.n and s.n ~= p.n then
        local _, theirs = own(p, s)
        if theirs > p.n then
          return false
        end
      end
      return placeAt(p, start, used, at, cost) + cost <= 4 * p.n
    end,
    charge = function(p, s, _, at, cost)
      local start, used = of(p, s)
      s.start, s.used, s.n = start, placeAt(p, start, used, at, cost) + cost, p.n
      return start + floor((s.used - 1) / p.n) * p.a -- the window it is in
    end,
    refund = function(p, s, _, receipt, cost)
      local start, used = own(p, s)
      local last = floor(max(0, used - 1) / (s.n or p.n))
      if used == 0 or receipt ~= start + last * p.a then
        return false -- it is over, or others have places in a later one
      end
      s.start, s.used = start, used - min(cost, used - last * s.n)
      return true
    end,
    available = function(p, s)
      local _, used = of(p, s)
      return max(0, p.n - used)
    end,
    full = function(p, s)
      local start, used = of(p, s)
      return used > 0 and start + ceil(used / p.n) * p.a or now
    end,
    over = function(p, s)
      local start, used = last(p, s)
      if not start or used == 0 and p.b >= 0 then
        return now
      end
      return start + max(1, ceil(used / s.n)) * p.a
    end,
    taken = function(p, s)
      local _, used = of(p, s)
      return used
    end,
    began = function(p, s)
      local start, used = of(p, s)
      return used > 0 and start or huge
    end,
  }
  A.a = A.f
end
