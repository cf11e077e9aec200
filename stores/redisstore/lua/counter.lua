-- c, a sliding counter. A is the period. State: 'START BEFORE USED TIME COST TIME COST...', the
-- start of this window, the permits taken in the one before and in this one, and the reservations
-- that lie ahead: no take comes before them.
do
  local none = {} -- no reservations

  local function roll(p, start, before, used, t)
    local over = floor((t - start) / p.a)
    if over == 0 then
      return start, before, used -- a window keeps its end without usage
    end
    if over > 0 then
      before, used = over > 1 and 0 or used, 0
      start = start + over * p.a
    end
    if before == 0 and used == 0 then
      start = t
    end
    return start, before, used
  end

  -- fold returns the state with the reservations up to a time included, and the first later one.
  local function fold(p, s, t)
    if not s.start then
      return t, 0, 0, 1
    end
    local start, before, used, i = s.start, s.before, s.used, 1
    while s.ahead[i] and s.ahead[i] <= t do
      start, before, used = roll(p, start, before, used, s.ahead[i])
      used, i = used + s.ahead[i + 1], i + 2
    end
    return start, before, used, i
  end

  local function due(s)
    return s.start and max(now, s.ahead[#s.ahead - 1] or now) or now
  end

  -- last returns the state at the first time, t or later, at which a take can follow all others.
  local function last(p, s, t)
    if s.ahead == none and t >= s.start and t < s.start + p.a then
      return t, s.start, s.before, s.used
    end
    t = max(t, due(s))
    local start, before, used = fold(p, s, t)
    return t, roll(p, start, before, used, t)
  end

  local function full(p, start, before, used)
    if used > 0 then
      return start + 2 * p.a
    end
    return before > 0 and start + p.a or now
  end

  local function charge(p, s, t, cost)
    local start, before, used, i = fold(p, s, now)
    local was, ahead = s.ahead or none, none
    if t > now or was[i] then
      ahead = {}
      while was[i] do
        ahead[#ahead + 1] = was[i]
        i = i + 1
      end
    end
    if ahead[#ahead - 1] == t then
      ahead[#ahead] = ahead[#ahead] + cost
    elseif t > now then
      if not s.start then
        start = t
      end
      ahead[#ahead + 1] = t
      ahead[#ahead + 1] = cost
    else
      start, before, used = roll(p, start, before, used, t)
      used = used + cost
    end
    s.start, s.before, s.used, s.ahead = start, before, used, ahead
    return t
  end

  A.c = {
    unpack = function(value, i, size)
      local start, before, used = struct.unpack('<ddd', value, i)
      local ahead = size > 24 and {} or none
      for j = 1, size / 8 - 3 do
        ahead[j] = struct.unpack('<d', value, i + 16 + 8 * j)
      end
      return {start = start, before = before, used = used, ahead = ahead}
    end,
    pack = function(_, s)
      local value = struct.pack('<ddd', s.start, s.before, s.used)
      for i = 1, #s.ahead do
        value = value .. struct.pack('<d', s.ahead[i])
      end
      return value
    end,
    advance = function(_, s, at)
      local by = max(0, at - now)
      s.start = s.start - by
      for i = 1, #s.ahead, 2 do
        s.ahead[i] = s.ahead[i] - by
      end
    end,
    look = function(p, s)
      local t, start, before, used = last(p, s, now)
      local n = t > now and 0 or max(0, p.n - weigh(p.a, now, start, before, used))
      return n, n < p.n and earliest(p.n, p.a, n + 1, t, start, before, used) or now, full(p, start, before, used)
    end,
    first = function(p, s, cost)
      return earliest(p.n, p.a, cost, last(p, s, now))
    end,
    due = function(_, s)
      return due(s)
    end,
    used = function(p, s, t)
      return weigh(p.a, last(p, s, t)), 1
    end,
    put = function(p, t, num, den)
      local used, s = ceil(num / den), {}
      local ahead = floor(max(0, used - 1) / p.n)
      if used > 0 or t > now then
        charge(p, s, t + ahead * p.a, used - ahead * p.n)
      end
      return s
    end,
    same = function(_, s)
      return s
    end,
    over = function(p, s)
      local _, start, before, used = last(p, s, now)
      local over = full(p, start, before, used)
      if over > now or not s.start then
        return over
      end
      start = fold(p, s, now)
      return start <= now and max(now, start + p.a) or now
    end,
    fits = function(p, _, t)
      return (t - now) / 4 <= p.a
    end,
    charge = function(p, s, _, t, cost)
      return charge(p, s, t, cost)
    end,
    refund = function(p, s, _, receipt, cost)
      for i = 1, #s.ahead, 2 do
        if s.ahead[i] == receipt then
          s.ahead[i + 1] = s.ahead[i + 1] - cost
          if s.ahead[i + 1] <= 0 then
            table.remove(s.ahead, i)
            table.remove(s.ahead, i)
          end
          return true
        end
      end
      if receipt >= s.start then
        s.used = s.used - min(cost, s.used)
      elseif receipt >= s.start - p.a then
        s.before = s.before - min(cost, s.before)
      end
      return true
    end,
  }
end
