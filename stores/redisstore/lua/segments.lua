-- s, a sliding window, and l, a log. A is the period, B the step: a segment, or one µs. State:
-- 'BASE ENTRIES'. An entry is two numbers of 16 digits, the start of a step and the permits taken
-- up to its end, counted from BASE; so the sum of any entries is a difference. Reservations are
-- entries that lie ahead: no take comes before them.
do
  local function time(s, i)
    return tonumber(sub(s.list, 32 * i - 31, 32 * i - 16))
  end

  local function sum(s, i)
    return i > 0 and tonumber(sub(s.list, 32 * i - 15, 32 * i)) or s.base
  end

  local function search(lo, hi, found)
    while lo < hi do
      local mid = floor((lo + hi) / 2)
      if found(mid) then
        hi = mid
      else
        lo = mid + 1
      end
    end
    return lo
  end

  -- live returns the first entry that counts at a time, and the cost of all entries that do.
  local function live(p, s, t)
    if not s.len then
      return 1, 0
    end
    local first = search(1, s.len + 1, function(i) return time(s, i) + p.a > t end)
    return first, sum(s, s.len) - sum(s, first - 1)
  end

  local function last(s)
    return s.len and s.len > 0 and max(now, time(s, s.len)) or now
  end

  -- rebuild moves the times, and the sums from an entry on.
  local function rebuild(s, later, from, more)
    local list = {}
    for i = 1, s.len do
      list[i] = format('%016d%016d', max(0, time(s, i) + later), sum(s, i) + (i >= from and more or 0))
    end
    s.list = concat(list)
  end

  local function available(p, s)
    local _, taken = live(p, s, now)
    return last(s) > now and 0 or max(0, p.n - taken)
  end

  local function earliest(p, s, cost)
    local at = last(s)
    local first, taken = live(p, s, at)
    if taken + cost <= p.n then
      return at
    end
    local need = sum(s, s.len) + cost - p.n
    return max(at, time(s, search(first, s.len, function(i) return sum(s, i) >= need end)) + p.a)
  end

  local function full(p, s)
    return s.len and s.len > 0 and max(now, time(s, s.len) + p.a) or now
  end

  -- charge counts from the beginning of a step or, of a charge that lies ahead, from the end of one.
  local function charge(p, s, at, cost)
    if not s.len then
      s.base, s.list, s.len = 0, '', 0
    end
    local first = live(p, s, now)
    if first > 1 then
      s.base, s.list, s.len = sum(s, first - 1), sub(s.list, 32 * first - 31), s.len - first + 1
    end
    if sum(s, s.len) > 4503599627370496 then
      local base = s.base
      s.base = 0
      rebuild(s, 0, 1, -base)
    end
    local start, total = at - at % p.b, sum(s, s.len) + cost
    if start < at and at > now then
      start = start + p.b
    end
    if s.len > 0 and time(s, s.len) >= start then
      start = time(s, s.len)
      s.len = s.len - 1
    end
    s.list = sub(s.list, 1, 32 * s.len) .. format('%016d%016d', start, total)
    s.len = s.len + 1
    return start
  end

  A.s = {
    read = function(text)
      local base, list = match(text, '^(%d+) (%d*)$')
      return {base = tonumber(base), list = list, len = #list / 32}
    end,
    write = function(_, s)
      return format('%d %s', s.base, s.list)
    end,
    shift = function(s, by)
      rebuild(s, -by, 1, 0)
    end,
    look = function(p, s, cost)
      local n = available(p, s)
      return n, earliest(p, s, cost), n < p.n and earliest(p, s, n + 1) or now, full(p, s)
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
      return {base = s.base, list = s.list, len = s.len}
    end,
    over = full,
    fits = function(p, _, at)
      return (at - now) / 4 <= p.a
    end,
    charge = function(p, s, _, at, cost)
      return charge(p, s, at, cost)
    end,
    refund = function(p, s, _, receipt, cost)
      if not s.len then
        return false
      end
      local i = search(live(p, s, now), s.len + 1, function(j) return time(s, j) >= receipt end)
      if i > s.len or time(s, i) ~= receipt then
        return false
      end
      rebuild(s, 0, i, -min(cost, sum(s, i) - sum(s, i - 1)))
      while s.len > 0 and sum(s, s.len) == sum(s, s.len - 1) do
        s.len = s.len - 1
      end
      s.list = sub(s.list, 1, 32 * s.len)
      return true
    end,
  }
  A.l = A.s
end
