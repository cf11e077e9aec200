-- s, a sliding window, and l, a log. A is the period, B the step: a segment, or one µs. State:
-- 'BASE ENTRIES'. An entry is two numbers: the start of a step, and the permits taken up to its
-- end, counted from BASE; so the sum of any entries is a difference. Reservations are
-- entries that lie ahead: no take comes before them.
do
  local pack, unpack = struct.pack, struct.unpack

  local function time(s, i)
    return (unpack('<d', s.list, 16 * i - 15))
  end

  local function sum(s, i)
    return i > 0 and unpack('<d', s.list, 16 * i - 7) or s.base
  end

  -- search returns the first entry from one on whose time (of is 0) or sum (of is 8) is above a number.
  local function search(s, lo, of, above)
    if lo <= s.len and unpack('<d', s.list, 16 * lo - 15 + of) > above then
      return lo -- as a rule
    end
    return entry(s.list, 1, lo, s.len, of, above)
  end

  -- tail reads the time of the last entry, and the sum up to it.
  local function tail(s)
    s.last, s.total = nil, s.base
    if s.len > 0 then
      s.last, s.total = unpack('<dd', s.list, 16 * s.len - 15)
    end
    return s
  end

  -- live returns the first entry that counts at a time, and the cost of all entries that do.
  local function live(p, s, t)
    if not s.len then
      return 1, 0
    end
    local first = t > now and search(s, 1, 0, t - p.a) or 1
    return first, s.total - sum(s, first - 1)
  end

  local function last(s)
    return s.last and max(now, s.last) or now
  end

  -- rebuild moves the times, and the sums from an entry on.
  local function rebuild(s, later, from, more)
    local list = {}
    for i = 1, s.len do
      list[i] = pack('<dd', max(0, time(s, i) + later), sum(s, i) + (i >= from and more or 0))
    end
    s.list = concat(list)
    tail(s)
  end

  -- turn returns when a cost can be taken, from the time of the last reservation, or now, and what is live then.
  local function turn(p, s, cost, at, first, taken)
    if taken + cost <= p.n then
      return at
    end
    return max(at, time(s, search(s, first, 8, s.total + cost - p.n - 1)) + p.a)
  end

  local function full(p, s)
    return s.last and max(now, s.last + p.a) or now
  end

  -- charge counts from the beginning of a step or, of a charge that lies ahead, from the end of one.
  local function charge(p, s, at, cost)
    if not s.len then
      s.base, s.list, s.len, s.total = 0, '', 0, 0
    end
    if s.total > 4503599627370496 then
      local base = s.base
      s.base = 0
      rebuild(s, 0, 1, -base)
    end
    local start = at - at % p.b
    if start < at and at > now then
      start = start + p.b
    end
    if s.last and s.last >= start then
      start, s.len = s.last, s.len - 1
      s.list = sub(s.list, 1, 16 * s.len)
    end
    s.last, s.total, s.len = start, s.total + cost, s.len + 1
    s.list = s.list .. pack('<dd', start, s.total)
    return start
  end

  A.s = {
    unpack = function(value, i, size)
      return tail({base = unpack('<d', value, i), list = sub(value, i + 8, i + size - 1), len = (size - 8) / 16})
    end,
    pack = function(_, s)
      return pack('<d', s.base) .. s.list
    end,
    advance = function(p, s, at)
      if at > now then
        rebuild(s, now - at, 1, 0)
      end
      local first = search(s, 1, 0, now - p.a)
      if first > 1 then
        s.base, s.list, s.len = sum(s, first - 1), sub(s.list, 16 * first - 15), s.len - first + 1
        tail(s)
      end
    end,
    look = function(p, s)
      local at = last(s)
      local first, taken = live(p, s, at)
      local n = at > now and 0 or max(0, p.n - taken)
      return n, n < p.n and turn(p, s, n + 1, at, first, taken) or now, full(p, s)
    end,
    first = function(p, s, cost)
      local at = last(s)
      return turn(p, s, cost, at, live(p, s, at))
    end,
    due = function(_, s)
      return last(s)
    end,
    used = function(p, s, t)
      local _, taken = live(p, s, t)
      return taken, 1
    end,
    put = function(p, t, num, den)
      local used, s = ceil(num / den), {}
      local ahead = floor(max(0, used - 1) / p.n)
      local last = t + ahead * p.a
      last = last - last % p.b
      if last < t and t > now then
        last = last + p.b
      end
      if used > 0 or last > now then
        charge(p, s, last, used - ahead * p.n)
      end
      return s
    end,
    same = function(_, s)
      return {base = s.base, list = s.list, len = s.len, last = s.last, total = s.total}
    end,
    over = full,
    fits = function(p, _, at)
      return (at - now) / 4 <= p.a
    end,
    charge = function(p, s, _, at, cost)
      return charge(p, s, at, cost)
    end,
    refund = function(p, s, _, receipt, cost)
      local i = search(s, 1, 0, receipt - 1)
      if i > s.len or time(s, i) ~= receipt then
        return false
      end
      rebuild(s, 0, i, -min(cost, sum(s, i) - sum(s, i - 1)))
      while s.len > 0 and sum(s, s.len) == sum(s, s.len - 1) do
        s.len = s.len - 1
      end
      s.list = sub(s.list, 1, 16 * s.len)
      tail(s)
      return true
    end,
  }
  A.l = A.s
end
