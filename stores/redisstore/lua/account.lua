local pack, unpack = struct.pack, struct.unpack

-- The fewest bytes of a state, to which come pairs of doubles.
local least = {b = 8, f = 16, a = 16, c = 24, s = 8, l = 8}

-- limit reads a limit, or returns false. Limits of one kind have the algorithm and the period in common.
local limits = {}
local function limit(name)
  if limits[name] == nil then
    local k, n, a, b, c, d = match(name, '^([bfacsl]):(%d+):(%d+):(%d+):(%d+):(%d+)$')
    limits[name] = k and {
      name = name, k = k, alg = A[k], n = tonumber(n), a = tonumber(a), b = tonumber(b), c = tonumber(c), d = tonumber(d),
      kind = (k == 'l' and 's' or k) .. (k == 'b' and d or a),
    }
  end
  return limits[name]
end

-- listed reads the limits of a head, or returns nil.
local function listed(head)
  local list = {}
  for name in gmatch(head, '[^ |]+') do
    local p = limit(name)
    if not p then
      return
    end
    list[#list + 1] = p
  end
  return list
end

local HEAD = ARGV[2]
local parts, ours, capacity = listed(HEAD), {}, huge -- the limits, and their kinds
for i = 1, #parts do
  ours[parts[i].kind], capacity = true, min(capacity, parts[i].n)
end

-- Of the key: limits p with states s, when they were written, and when the key expires.
local values, written, expires

-- read reads the value of a key, and returns 0, or the code of a reply.
local function read(key)
  local value = pcall('GET', key)
  values, written, expires = {}, nil, 0
  if not value or value.err then
    return value and -3 or 0
  end
  local list, at = parts, #HEAD + 1
  if sub(value, 1, at - 1) ~= HEAD then
    local head
    head, at = match(value, '^(%a:%d[^|]+|)()')
    list = head and listed(head)
  end
  if not list or #value < at + 15 then
    return -3
  end
  expires, written, at = unpack('<dd', value, at)
  local code = 0
  for i = 1, #list do
    local p, size = list[i], #value - at + 1
    if i < #list then
      if size < 8 then
        return -3
      end
      size, at = unpack('<d', value, at)
    end
    local over = size - least[p.k]
    if at + size > #value + 1 or size ~= 0 and (over < 0 or over % 16 ~= 0) then
      return -3
    elseif not p.alg then
      code = -2
    end
    values[i] = {p = p, s = size > 0 and p.alg and p.alg.unpack(value, at, size) or {}}
    at = at + size
  end
  return code
end

-- write writes all values, if one of them has not recovered.
local function write(key)
  local last, head, states = now, nil, ''
  for i = 1, #values do
    local p, s = values[i].p, values[i].s
    local over, state = p.alg.over(p, s), next(s) and p.alg.pack(p, s) or ''
    last = over > last and over or last
    head = head and head .. ' ' .. p.name or p.name
    states = i < #values and states .. pack('<d', #state) .. state or states .. state
  end
  if last <= now then
    if written then
      call('DEL', key)
    end
    return
  end
  local keep = expires > 0 and last <= expires
  if not keep then -- that of a key which is there is set in advance, for later takes
    expires = expires > 0 and last + ceil((last - now) / 4) + min(1000000, last - now) or last
  end
  local value = head .. '|' .. pack('<dd', expires, now) .. states
  if keep then
    call('SET', key, value, 'KEEPTTL')
  else
    call('SET', key, value, 'PX', ceil((expires - now) / 1000) + 1)
  end
end

-- usage returns how many permits are in use: now or, with some reserved ahead, when the last of them is due.
local function usage(v)
  local num, den = v.p.alg.used(v.p, v.s, v.p.alg.due(v.p, v.s))
  return ceil(num / den)
end

-- origin returns the place of the value of the kind of a limit, or nil.
local function origin(p)
  local from
  for i = 1, #values do
    if values[i].p == p then
      return i
    elseif values[i].p.kind == p.kind then
      from = i
    end
  end
  return from
end

-- under returns how the key stands under another limit, as look does, and when the cost can be taken: the same number of
-- permits is in use. Lists (c, s, l) can have more than their limit.
local function under(v, p, asked)
  local alg, due, n = v.p.alg, v.p.alg.due(v.p, v.s), 0
  local function first(m)
    m = m + v.p.n - p.n
    if m <= 0 and not match(v.p.k, '[csl]') then
      return due
    end
    return alg.first(v.p, v.s, m)
  end
  if due == now then
    n = max(0, p.n - usage(v))
  end
  local _, _, full = alg.look(v.p, v.s)
  return {n, n < p.n and first(n + 1) or now, full, first(asked)}
end

-- foreign returns how the key stands under a limit of whose kind it has no value, and the place of the value that decides, or nil: the
-- strictest one that no other limit continues, which makes the cost wait longest or has the most permits in use.
local function foreign(p, asked)
  local stand, from, most
  for i = 1, #values do
    local v = values[i]
    if not ours[v.p.kind] then
      local is, n = under(v, p, asked), usage(v)
      if not from or is[4] > stand[4] or is[4] == stand[4] and n > most then
        from, most = i, n
      end
      stand = stand or is
      if is[1] < stand[1] or is[1] == stand[1] and is[2] > stand[2] then
        stand[1], stand[2] = is[1], is[2]
      end
      stand[3], stand[4] = max(stand[3], is[3]), max(stand[4], is[4])
    end
  end
  return stand, from
end

-- restate returns the state under another limit of what is used at a time, due or later, or nil, and whether that is all in use now.
local function restate(v, p, t)
  if v.p.kind == p.kind and p.k ~= 'b' then
    return p.alg.same(p, v.s, v.p), match(p.k, '[csl]') or usage(v) <= p.n
  end
  local s = p.alg.put(p, t, v.p.alg.used(v.p, v.s, t))
  if s and t > now and p.alg.hold and t == v.p.alg.due(v.p, v.s) then
    p.alg.hold(p, s, t)
  end
  return s
end

-- Of each limit: the value, how the key stands if that is known, and when the cost can be taken.
local next_, stands, firsts = {}, {}, {}

-- grant returns the permits to take of each limit, or -1, and the time at which they can be used.
local function grant(kind, cost, wait)
  local n, at = cost, now
  if kind == 1 or kind == 6 then
    n = kind == 6 and huge or cost
    for i = 1, #parts do
      n = min(n, stands[i] and stands[i][1] or (parts[i].alg.look(parts[i], next_[i].s)))
    end
    if n == 0 and cost > 0 then
      return -1, now
    end
  elseif cost > capacity then
    return -1, now
  elseif cost > 0 then
    for i = 1, #parts do
      at = max(at, firsts[i])
    end
    if at > now and (kind ~= 2 or at - now > wait) then
      return -1, at
    end
  end
  if n == 0 or kind == 5 then
    return 0, at
  end
  for i = 1, #parts do
    local p, v = parts[i], next_[i]
    if v.p ~= p then
      local s, all = restate(v, p, min(at, firsts[i]))
      v = {p = p, s = s, restated = true, firm = not all}
      next_[i] = v
    end
    if not v.s or at > now and not p.alg.fits(p, v.s, at, n) then
      return -1, at
    end
  end
  return n, at
end

local reply = {pack('<d', now)}

-- decide carries out an operation on a key.
local function decide(key, op)
  local kind, cost, wait, tail = unpack('<ddd', op)
  local code = read(key)
  if code < 0 then
    reply[#reply + 1] = pack('<d', code) .. string.rep('\0', 8 + 40 * #parts)
    return
  end
  for i = 1, #values do
    local p, s = values[i].p, values[i].s
    if next(s) then
      p.alg.advance(p, s, written)
    end
  end
  local changed = written and written > now -- the clock went back
  if changed then
    expires = 0
  end
  if kind == 3 then -- permits go back to the values that are still under the limits of the take
    local at, receipt, name
    at, tail = unpack('<d', op, tail)
    while tail <= #op do
      receipt, name, tail = unpack('<ds', op, tail)
      for i = 1, #values do
        local v = values[i]
        if v.p.name == name and receipt >= 0 and next(v.s) and v.p.alg.refund(v.p, v.s, at, receipt, cost) then
          changed = true
        end
      end
    end
    cost = 0
  elseif kind == 4 then
    values, changed, cost = {}, true, 0
  end

  local asked = cost
  if kind == 1 or kind == 6 then
    asked = 1
  elseif cost > capacity then
    asked = 0 -- never allowed: only read the state
  end
  local early
  for i = 1, #parts do
    local p = parts[i]
    local from, stand = origin(p), nil
    local alone = from or #values == 1 and #parts == 1 -- a refusal can restate the value
    if not from then
      stand, from = foreign(p, asked)
    elseif values[from].p ~= p then
      stand = under(values[from], p, asked)
    end
    local v = from and values[from] or {p = p, s = {}}
    if stand then
      local s = alone and asked > 0 and stand[4] > now and restate(v, p, v.p.alg.due(v.p, v.s))
      if s then -- both the take and the recovery come sooner
        local first, n, more, full = p.alg.first(p, s, asked), p.alg.look(p, s)
        if first < stand[4] and full < stand[3] then
          v, stand = {p = p, s = s}, {n, more, full, first}
          early = early or {}
          early[from] = v
        end
      end
    end
    next_[i], stands[i], firsts[i] = v, stand, stand and stand[4] or p.alg.first(p, v.s, asked)
  end

  local granted, at = grant(kind, cost, wait)
  reply[#reply + 1] = pack('<dd', granted, at)
  for i = 1, #parts do
    local p, v, stand, receipt = parts[i], next_[i], stands[i], 0
    if granted > 0 then
      receipt = p.alg.charge(p, v.s, firsts[i], at, granted)
      if v.restated and at > now and p.alg.hold then
        p.alg.hold(p, v.s, at)
      end
      if v.firm and at > now then
        receipt = -1 -- a refund would make room for what is used until then
      end
    end
    local n, more, full
    if stand and granted <= 0 then
      n, more, full = stand[1], stand[2], stand[3]
    else
      n, more, full = p.alg.look(p, v.s)
    end
    reply[#reply + 1] = pack('<ddddd', n, firsts[i], more, full, receipt)
  end
  if granted > 0 then
    for i = 1, #values do
      values[i] = nil
    end
    for i = 1, #parts do
      values[i] = next_[i]
    end
    changed = true
  elseif early and granted < 0 and kind ~= 5 then
    for i, v in pairs(early) do
      values[i], changed = v, true
    end
  end
  if changed then
    write(key)
  end
end

for i = 1, #KEYS do
  decide(KEYS[i], ARGV[i + 2] or ARGV[3])
end
return concat(reply)
