local arg = 1
local function take1()
  arg = arg + 1
  return ARGV[arg]
end

-- limit reads a limit, or returns nil. Limits of one kind have the algorithm and the period in common.
local function limit(name)
  local k, n, a, b, c, d = match(name, '^(%a):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  return k and {
    name = name, k = k, alg = A[k], n = tonumber(n), a = tonumber(a), b = tonumber(b), c = tonumber(c), d = tonumber(d),
    kind = (k == 'l' and 's' or k) .. (k == 'b' and d or a),
  }
end

local kind, cost, wait, capacity = tonumber(take1()), tonumber(take1()), tonumber(take1()), tonumber(take1())
local parts, ours = {}, {} -- the limits, and their kinds
for i = 1, tonumber(take1()) do
  parts[i] = limit(take1())
  ours[parts[i].kind] = true
end

-- formed reports whether a text has the form of a state of its algorithm. Of a list, which can be long, it checks only
-- the length.
local shapes = {
  b = '^%d+ ?%d* ?%d*$', f = '^%-?%d+ %d+$', a = '^%-?%d+ %d+$', c = '^%-?%d+ %d+ %d+[%d ]*$', s = '^%d+ ()', l = '^%d+ ()',
}
local function formed(p, text)
  local shape = p and shapes[p.k]
  local list = shape and (text == '' or match(text, shape))
  return list and (type(list) ~= 'number' or (#text - list + 1) % 32 == 0)
end

-- The forms of values that takebucket and takewindow write, by the number of bytes after the limit.
local forms = {b = {[24] = '<ddd', [40] = '<ddddd'}, f = {[32] = '<dddd'}, a = {[32] = '<dddd'}}

local values, written = {}, nil -- of limits p, with states s
local value = pcall('GET', KEYS[1])
local name, tail = match(value and not value.err and value or '', '^(%a:[%d:]+)|()')
if name then
  local p = limit(name)
  local form = p and forms[p.k] and forms[p.k][#value - tail + 1]
  if not form then
    return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' holds a value that is none of a limit')
  elseif not p.alg then
    return {now, -2}
  end
  local n = {struct.unpack(form, value, tail)}
  n[#n] = nil -- the position after them
  written, values[1] = n[1], {p = p, s = p.alg.state(n[3], n[4], n[5], n[1])}
elseif value then
  local at, rest = match(not value.err and value or '', '^(%d+)(|.+|)$')
  local size, lacks = at and #at + 1 or -1, false
  for name, text in gmatch(rest or '', '([^ |]+) ([^|]*)|') do
    local p = limit(name)
    if formed(p, text) then
      size, lacks = size + #name + #text + 2, lacks or not p.alg
      values[#values + 1] = {p = p, s = {}, text = text}
    end
  end
  if size ~= #(value.err or value) then
    return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' holds a value that is none of a limit')
  elseif lacks then
    return {now, -2}
  end
  written = tonumber(at)
  for i = 1, #values do
    local v = values[i]
    if v.text ~= '' then
      v.s = v.p.alg.read(v.text, written)
    end
  end
end

-- write writes all values, if one of them has not recovered.
local function write()
  local list, last = {format('%d', now)}, now
  for i = 1, #values do
    local v = values[i]
    last = max(last, v.p.alg.over(v.p, v.s))
    list[#list + 1] = v.p.name .. ' ' .. (next(v.s) and v.p.alg.write(v.p, v.s) or '')
  end
  if last <= now then
    if written then
      call('DEL', KEYS[1])
    end
    return
  end
  local text = concat(list, '|') .. '|'
  if #values == 1 and next(values[1].s) and values[1].p.alg.pack then
    local v = values[1]
    text = v.p.name .. '|' .. struct.pack('<dd', now, last) .. v.p.alg.pack(v.p, v.s)
  end
  call('SET', KEYS[1], text, 'PX', ceil((last - now) / 1000) + 1)
end

-- If the clock went back, all times are moved back too.
local changed = false
if written and written > now then
  for i = 1, #values do
    local v = values[i]
    if next(v.s) then
      v.p.alg.shift(v.s, written - now, v.p)
    end
  end
  changed = true
end

-- A refund gives permits back to the values that are still under the limits of the take, and a reset drops them.
if kind == 3 then
  local at, name = tonumber(take1()), take1()
  while name do
    local receipt = tonumber(take1())
    for i = 1, #values do
      local v = values[i]
      if v.p.name == name and receipt >= 0 and next(v.s) and v.p.alg.refund(v.p, v.s, at, receipt, cost) then
        changed = true
      end
    end
    name = take1()
  end
  cost = 0
elseif kind == 4 then
  values, changed, cost = {}, true, 0
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
    if values[i].p.name == p.name then
      return i
    elseif values[i].p.kind == p.kind then
      from = i
    end
  end
  return from
end

-- under returns how the key stands under another limit: the same number of permits is in use. Lists (c, s, l) can have more
-- than their limit.
local function under(v, p, asked)
  local alg, due, n = v.p.alg, v.p.alg.due(v.p, v.s), 0
  local function first(m)
    m = m + v.p.n - p.n
    if m <= 0 and not match(v.p.k, '[csl]') then
      return due
    end
    local _, at = alg.look(v.p, v.s, m)
    return at
  end
  if due == now then
    n = max(0, p.n - usage(v))
  end
  local _, _, _, full = alg.look(v.p, v.s, 0)
  return {n, first(asked), n < p.n and first(n + 1) or now, full}
end

-- foreign returns how the key stands under a limit of whose kind it has no value, and the place of the value that decides, or nil: the
-- strictest one that no other limit continues, which makes the cost wait longest or has the most permits in use.
local function foreign(p, asked)
  local stand, from, most
  for i = 1, #values do
    local v = values[i]
    if not ours[v.p.kind] then
      local is, n = under(v, p, asked), usage(v)
      if not from or is[2] > stand[2] or is[2] == stand[2] and n > most then
        from, most = i, n
      end
      stand = stand or is
      if is[1] < stand[1] or is[1] == stand[1] and is[3] > stand[3] then
        stand[1], stand[3] = is[1], is[3]
      end
      stand[2], stand[4] = max(stand[2], is[2]), max(stand[4], is[4])
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

local asked = cost
if kind == 1 or kind == 6 then
  asked = 1
elseif cost > capacity then
  asked = 0 -- never allowed: only read the state
end

local next_, stands, early = {}, {}, {}
for i = 1, #parts do
  local p = parts[i]
  local from, stand = origin(p), nil
  local alone = from or #values == 1 and #parts == 1 -- a refusal can restate the value
  if not from then
    stand, from = foreign(p, asked)
  elseif values[from].p.name ~= p.name then
    stand = under(values[from], p, asked)
  end
  local v = from and values[from] or {p = p, s = {}}
  if not stand then
    stand = {p.alg.look(p, v.s, asked)}
  else
    local s = alone and asked > 0 and stand[2] > now and restate(v, p, v.p.alg.due(v.p, v.s))
    if s then -- both the take and the recovery come sooner
      local again = {p.alg.look(p, s, asked)}
      if again[2] < stand[2] and again[4] < stand[4] then
        v, stand = {p = p, s = s}, again
        early[from] = v
      end
    end
  end
  next_[i], stands[i] = v, stand
end

-- grant returns the permits to take of each limit, or -1, and the time at which they can be used.
local function grant()
  local n, at = cost, now
  if kind == 1 or kind == 6 then
    n = kind == 6 and huge or cost
    for i = 1, #parts do
      n = min(n, stands[i][1])
    end
    if n == 0 and cost > 0 then
      return -1, now
    end
  elseif cost > capacity then
    return -1, now
  elseif cost > 0 then
    for i = 1, #parts do
      at = max(at, stands[i][2])
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
    if v.p.name ~= p.name then
      local s, all = restate(v, p, min(at, stands[i][2]))
      v = {p = p, s = s, restated = true, firm = not all}
      next_[i] = v
    end
    if not v.s or at > now and not p.alg.fits(p, v.s, at, n) then
      return -1, at
    end
  end
  return n, at
end

local granted, at = grant()
local receipts = {}
if granted > 0 then
  for i = 1, #parts do
    local p, s = parts[i], next_[i].s
    receipts[i] = p.alg.charge(p, s, stands[i][2], at, granted)
    if next_[i].restated and at > now and p.alg.hold then
      p.alg.hold(p, s, at)
    end
    if next_[i].firm and at > now then
      receipts[i] = -1 -- a refund would make room for what is used until then
    end
    stands[i] = {p.alg.look(p, s, 0)}
  end
  values, changed = next_, true
elseif granted < 0 and kind ~= 5 then
  for i, v in pairs(early) do
    values[i], changed = v, true
  end
end
if changed then
  write()
end

local reply = {now, granted, at}
for i = 1, #parts do
  for j = 1, 4 do
    reply[5 * i + j - 2] = stands[i][j]
  end
  reply[5 * i + 3] = receipts[i] or 0
end
return reply
