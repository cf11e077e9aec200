local kind, cost, wait, capacity = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local parts, specs, states, changed = {}, {}, {}, {}
local arg = 8
for i = 1, tonumber(ARGV[7]) do
  specs[i] = {
    place = i, kind = ARGV[arg], alg = A[sub(ARGV[arg], 1, 1)], n = tonumber(ARGV[arg + 1]),
    a = tonumber(ARGV[arg + 2]), b = tonumber(ARGV[arg + 3]), c = tonumber(ARGV[arg + 4]),
  }
  arg = arg + 5
end
for i = 1, tonumber(ARGV[6]) do
  parts[i] = specs[i]
end

-- The value: texts and ends by their kind; an end of 0 is not known. ours reports whether a text has
-- the form of the kind that it is under; a list of entries, which can be long, by its length.
local texts, ends = {}, {}
local shapes = {
  b = '^%d+ %d+ %d+ %d+$', f = '^%d+ %d+ %d+$', a = '^%d+ %d+ %d+$', c = '^%d+ %d+ %d+ %d+ %d+[%d ]*$',
  s = '^%d+ %d+ %d+ ()', l = '^%d+ %d+ %d+ ()',
}
local function ours(name, text)
  local shape = shapes[sub(name, 1, 1)]
  local list = shape and match(name, '^%l%d*/?%d*$') and match(text, shape)
  return list and (type(list) == 'string' or (#text - list + 1) % 32 == 0 and match(text, '[%d ]$', -1))
end

local value = redis.pcall('GET', KEYS[1])
local known = not value
if value and value.err then
  known = false
elseif value and sub(value, -1) == '|' then
  local size = 0
  known = true
  for over, name, text in string.gmatch(value, '(%d+) (%S+) ([^|]*)|') do
    texts[name], ends[name] = text, tonumber(over)
    size, known = size + #over + #name + #text + 3, known and ours(name, text)
  end
  known = known and size == #value
elseif value then
  local name, text = match(value, '^(%S+) (.*)$')
  known = name and ours(name, text)
  if known then
    texts[name], ends[name] = text, 0
  end
end
if not known then
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' holds a value that is none of a limit')
end

local function state(p)
  local s = states[p.kind]
  if not s then
    local text = texts[p.kind]
    s = text and p.alg.read(text) or {}
    states[p.kind] = s
    if s.back then
      changed[p.kind] = p
    end
  end
  return s
end

-- flush writes the value.
local function flush()
  for name in pairs(changed) do
    local s, p = states[name], changed[name]
    local over = s.n and (p.alg.over or p.alg.full)(p, s) or now
    texts[name], ends[name] = over > now and p.alg.write(s) or nil, over
  end
  local list, last, only = {}, now, nil
  for name, text in pairs(texts) do
    if ends[name] == 0 then
      ends[name] = now + 1000 * max(0, call('PTTL', KEYS[1]))
    end
    if ends[name] > now then
      list[#list + 1] = format('%d %s %s|', ends[name], name, text)
      last, only = max(last, ends[name]), name
    end
  end
  if #list == 0 then
    call('DEL', KEYS[1])
    return
  end
  local text = #list == 1 and only .. ' ' .. texts[only] or table.concat(list)
  call('SET', KEYS[1], text, 'PX', ceil((last - now) / 1000) + 1)
end

-- Limits that came before: a part is what it has replaced while the window is on in which it
-- did; what is owed under a kind that is gone goes over to the part that came in its place.
local function move(from, to)
  local a, b = state(from), state(to)
  local n = min(from.alg.taken(from, a), to.alg.available(to, b))
  if n > 0 then
    to.alg.charge(to, b, now, now, n)
    changed[to.kind] = to
  end
  states[from.kind], changed[from.kind] = {}, from
end

local past = {}
for i = 1, tonumber(ARGV[arg]) do
  local was = {since = now - ARGV[arg + 1]}
  for j = 1, #parts do
    was[j] = specs[tonumber(ARGV[arg + 1 + j])]
  end
  past[i], arg = was, arg + 1 + #parts
end
arg = arg + 1

local function effective()
  for j = 1, #past > 0 and #parts or 0 do
    local part = parts[j]
    for i = 1, #past do
      local old = past[i][j]
      if not old then
        break
      end
      local s = state(old)
      if not s.n or old.kind == part.kind and s.n == part.n then
        break
      end
      if old.alg.began(old, s) > past[i].since then
        if old.kind ~= part.kind then
          move(old, part)
        end
        break
      end
      part = old
    end
    parts[j] = part
  end
end

local allowed, granted, which, waits, retry = true, 0, 1, 0, 0
local receipts = {}

-- take takes n permits, at least 1, of all parts or of none.
local function take(n, reserve, write)
  local own, at = {}, now
  for i = 1, #parts do
    local p = parts[i]
    if n > p.n then
      own[i] = max(now + 1, p.alg.full(p, state(p))) -- never, or when it gives way to a larger one
    else
      own[i] = p.alg.earliest(p, state(p), n)
    end
    if own[i] > at then
      at, which = own[i], i
    end
  end
  if at > now then
    local ok = reserve and at - now <= wait
    for i = 1, #parts do
      local p = parts[i]
      ok = ok and n <= p.n and p.alg.fits(p, state(p), at, n)
    end
    if not ok then
      allowed, retry = false, at - now
      return
    end
    waits = at - now
  end
  if not write then
    return
  end
  for i = 1, #parts do
    local p = parts[i]
    receipts[2 * i - 1], receipts[2 * i] = p.place, p.alg.charge(p, state(p), own[i], at, n)
    changed[p.kind] = p
  end
  granted = n
end

if kind == 3 then
  local at = tonumber(ARGV[arg + 1])
  for i = 1, tonumber(ARGV[arg]) do
    local p = specs[tonumber(ARGV[arg + 2 * i])]
    if p.alg.refund(p, state(p), at, tonumber(ARGV[arg + 2 * i + 1]), cost) then
      changed[p.kind] = p
    end
  end
elseif kind == 4 then
  for i = 1, #specs do
    states[specs[i].kind], changed[specs[i].kind] = {}, specs[i]
  end
end
effective()
if kind == 0 or kind == 2 or kind == 5 then
  if cost > 0 then
    take(cost, kind == 2, kind ~= 5)
  end
  if not allowed and cost > capacity then
    retry = -1
  end
elseif kind == 1 or kind == 6 then
  local most = kind == 6 and huge or cost
  for i = 1, #parts do
    most = min(most, parts[i].alg.available(parts[i], state(parts[i])))
  end
  if most > 0 then
    take(most, false, true)
  elseif cost > 0 then
    take(1, false, true)
  end
end
for i = 1, #parts do
  state(parts[i]) -- a look writes too what a clock that went back has changed
end
if next(changed) then
  flush()
end

-- How the part that counts stands: of a refusal the one that was found, else the one with
-- least remaining.
if allowed or retry < 0 then
  local least = huge
  for i = 1, #parts do
    local n = retry < 0 and parts[i].n or parts[i].alg.available(parts[i], state(parts[i]))
    if n < least then
      which, least = i, n
    end
  end
end
local p = parts[which]
local s = state(p)
local remaining = p.alg.available(p, s)
local nextAfter = remaining < p.n and p.alg.earliest(p, s, remaining + 1) - now or 0
local reply = {
  allowed and 1 or 0, granted, p.n, remaining, waits, retry, nextAfter, p.alg.full(p, s) - now, which - 1, now,
}
for i = 1, #receipts do
  reply[10 + i] = receipts[i]
end
for i = 1, #parts > 1 and #parts or 0 do
  local p = parts[i]
  reply[#reply + 1] = p.alg.available(p, state(p))
  reply[#reply + 1] = p.alg.full(p, state(p)) - now
end
return reply
