-- s, a sliding window, and l, a log. Spec: a is the period, b the step: a segment, or one µs. State:
-- 'AT PERMITS BASE ENTRIES'. An entry is two numbers of 16 digits, the beginning of a step and
-- all that was taken up to its end, counted on from BASE; so the sum of any of them is a
-- difference. Reservations are entries that lie ahead: nothing is taken before them.
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

  -- live is the first entry that counts at a time, and the cost of all that do.
  local function live(p, s, t)
    if not s.n then
      return 1, 0
    end
    local first = search(1, s.len + 1, function(i) return time(s, i) + p.a > t end)
    return first, sum(s, s.len) - sum(s, first - 1)
  end

  local function last(s)
    return s.n and s.len > 0 and max(now, time(s, s.len)) or now
  end

  -- rebuild moves the times, and the sums from an entry on.
  local function rebuild(s, later, from, more)
    local list = {}
    for i = 1, s.len do
      list[i] = format('%016d%016d', max(0, time(s, i) + later), sum(s, i) + (i >= from and more or 0))
    end
    s.list = table.concat(list)
  end

  A.s = {
    read = function(text)
      local at, n, base, list = match(text, '^(%d+) (%d+) (%d+) (%d*)$')
      local s = {n = tonumber(n), base = tonumber(base), list = list, len = #list / 32}
      if tonumber(at) > now then
        s.back = true
        rebuild(s, now - at, 1, 0)
      end
      return s
    end,
    write = function(s)
      return format('%d %d %d %s', now, s.n, s.base, s.list)
    end,
    earliest = function(p, s, cost)
      local at = last(s)
      local first, taken = live(p, s, at)
      if taken + cost <= p.n then
        return at
      end
      local need = sum(s, s.len) + cost - p.n
      return max(at, time(s, search(first, s.len, function(i) return sum(s, i) >= need end)) + p.a)
    end,
    fits = function(p, _, at)
      return (at - now) / 4 <= p.a
    end,
    charge = function(p, s, _, at, cost)
      if not s.n then
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
      if s.len > 0 and time(s, s.len) >= start then
        start = time(s, s.len)
        s.len = s.len - 1
      end
      s.list = sub(s.list, 1, 32 * s.len) .. format('%016d%016d', start, total)
      s.len, s.n = s.len + 1, p.n
      return at
    end,
    refund = function(p, s, _, receipt, cost)
      if not s.n then
        return false
      end
      local start, first = receipt - receipt % p.b, live(p, s, now)
      local i = search(first, s.len + 1, function(j) return time(s, j) >= start end)
      if i > s.len or time(s, i) ~= start then
        return false
      end
      rebuild(s, 0, i, -min(cost, sum(s, i) - sum(s, i - 1)))
      while s.len > 0 and sum(s, s.len) == sum(s, s.len - 1) do
        s.len = s.len - 1
      end
      s.list = sub(s.list, 1, 32 * s.len)
      return true
    end,
    available = function(p, s)
      local _, taken = live(p, s, now)
      return last(s) > now and 0 or max(0, p.n - taken)
    end,
    full = function(p, s)
      return s.n and s.len > 0 and max(now, time(s, s.len) + p.a) or now
    end,
    taken = function(p, s)
      local _, taken = live(p, s, now)
      return taken
    end,
    began = function(p, s)
      local _, taken = live(p, s, now)
      return p.b > 1 and taken > 0 and now - now % p.b or huge
    end,
  }
  A.l = A.s
end
