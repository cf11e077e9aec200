local arg = 1
local function take1()
  arg = arg + 1
  return ARGV[arg]
end

-- limit reads a limit, or returns nil. Limits of one kind have the algorithm and the period in common.
local known = {}
local function limit(name)
  local p = known[name]
  if not p then
    local k, n, a, b, c, d = match(name, '^(%a):(%d+):(%d+):(%d+):(%d+):(%d+)$')
    p = k and {
      name = name, k = k, alg = A[k], n = tonumber(n), a = tonumber(a), b = tonumber(b), c = tonumber(c), d = tonumber(d),
      kind = (k == 'l' and 's' or k) .. (k == 'b' and d or a),
    }
    known[name] = p
  end
  return p
end

-- The limits, and their kinds, are those of all keys.
local capacity, parts, ours = tonumber(take1()), {}, {}
for i = 1, tonumber(take1()) do
  parts[i] = limit(take1())
  ours[parts[i].kind] = true
end

-- The decision under way: its key and operation; the states s that the value has, of limits p, and when it was written; and
-- whether it changes.
local key, kind, cost, wait, values, written, changed

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

-- open reads the value of the key. It returns false, and the code for the reply, if that cannot be read.
local function open()
  values, written, changed = {}, nil, false
  local value = pcall('GET', key)
  local name, tail = match(value and not value.err and value or '', '^(%a:[%d:]+)|()')
  if name then
    local p = limit(name)
    local form = p and forms[p.k] and forms[p.k][#value - tail + 1]
    if not form or not p.alg then
      return false, form and -2 or -3
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
    if size ~= #(value.err or value) or lacks then
      return false, size == #(value.err or value) and -2 or -3
    end
    written = tonumber(at)
    for i = 1, #values do
      local v = values[i]
      if v.text ~= '' then
        v.s = v.p.alg.read(v.text, written)
      end
    end
  end
  if written and written > now then -- the clock went back: all times are moved back too
    for i = 1, #values do
      local v = values[i]
      if next(v.s) then
        v.p.alg.shift(v.s, written - now, v.p)
      end
    end
    changed = true
  end
  return true
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
      call('DEL', key)
    end
    return
  end
  local text = concat(list, '|') .. '|'
  if #values == 1 and next(values[1].s) and values[1].p.alg.pack then
    local v = values[1]
    text = v.p.name .. '|' .. struct.pack('<dd', now, last) .. v.p.alg.pack(v.p, v.s)
  end
  call('SET', key, text, 'PX', ceil((last - now) / 1000) + 1)
end

-- refund gives permits back to the values that are still under the limits of the take, which the arguments name.
local function refund(last)
  local at = tonumber(take1())
  while arg < last do
    local name, receipt = take1(), tonumber(take1())
    for i = 1, #values do
      local v = values[i]
      if v.p.name == name and receipt >= 0 and next(v.s) and v.p.alg.refund(v.p, v.s, at, receipt, cost) then
        changed = true
      end
    end
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

local next_, stands, early -- of the decision under way

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

-- decide decides, and returns the permits taken or -1, the time from which they can be used, and the receipts.
local function decide()
  local asked = cost
  if kind == 1 or kind == 6 then
    asked = 1
  elseif cost > capacity then
    asked = 0 -- never allowed: only read the state
  end

  next_, stands, early = {}, {}, {}
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
  return granted, at, receipts
end

local form, reply = '<dd' .. string.rep('ddddd', #parts), {struct.pack('<d', now)}
for i = 1, #KEYS do
  key, kind, cost, wait = KEYS[i], tonumber(take1()), tonumber(take1()), tonumber(take1())
  local last = tonumber(take1())
  last = arg + last
  local ok, code = open()
  local n = {code, now}
  if ok then
    if kind == 3 then
      refund(last)
      cost = 0
    elseif kind == 4 then
      values, changed, cost = {}, true, 0
    end
    local granted, at, receipts = decide()
    n[1], n[2] = granted, at
    for j = 1, #parts do
      local is = stands[j]
      n[5 * j - 2], n[5 * j - 1], n[5 * j], n[5 * j + 1], n[5 * j + 2] = is[1], is[2], is[3], is[4], receipts[j] or 0
    end
  else
    for j = 3, 2 + 5 * #parts do
      n[j] = 0
    end
  end
  reply[i + 1], arg = struct.pack(form, unpack(n)), last
end
return concat(reply)
