local arg = 1
local function take1()
  arg = arg + 1
  return ARGV[arg]
end

-- limit reads a limit, or returns nil.
local function limit(name)
  local k, n, a, b, c, d = match(name, '^(%a):(%d+):(%d+):(%d+):(%d+):(%d+)$')
  return k and {name = name, k = k, alg = A[k], n = tonumber(n), a = tonumber(a), b = tonumber(b), c = tonumber(c), d = tonumber(d)}
end

local function limits()
  local all = {}
  for i = 1, tonumber(take1()) do
    all[i] = limit(take1())
  end
  return all
end

local kind, cost, wait, capacity = tonumber(take1()), tonumber(take1()), tonumber(take1()), tonumber(take1())
local parts = limits()

-- The counts, by their order and by the names of their limits.
local counts, known = {}, {}
local function add(c)
  counts[#counts + 1], known[c.p.name] = c, c
end

-- ours reports whether a text has the form of the algorithm that it is under; a list of entries, which
-- can be long, by its length.
local shapes = {
  b = '^%d+ ?%d* ?%d*$', f = '^%-?%d+ %d+$', a = '^%-?%d+ %d+$', c = '^%-?%d+ %d+ %d+[%d ]*$', s = '^%d+ ()', l = '^%d+ ()',
}
local function ours(p, text)
  local shape = p and shapes[p.k]
  local list = shape and (text == '' or match(text, shape))
  return list and (type(list) ~= 'number' or (#text - list + 1) % 32 == 0)
end

local written
local value = pcall('GET', KEYS[1])
if value then
  local at, rest = match(not value.err and value or '', '^(%d+)(|.+|)$')
  local size, read, lacks = at and #at + 1 or -1, {}, false
  for name, marks, text in gmatch(rest or '', '([^ |!+-]+)([!+-]*) ([^|]*)|') do
    local p = limit(name)
    if ours(p, text) then
      size, lacks = size + #name + #marks + #text + 2, lacks or not p.alg
      read[#read + 1] = {p = p, s = {}, text = text, replaced = match(marks, '!') ~= nil, joined = match(marks, '%+') ~= nil, short = match(marks, '%-') ~= nil}
    end
  end
  if size ~= #(value.err or value) then
    return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' holds a value that is none of a limit')
  elseif lacks then
    return {now, -2}
  end
  written = tonumber(at)
  for i = 1, #read do
    if read[i].text ~= '' then
      read[i].s = read[i].p.alg.read(read[i].text, written)
    end
    add(read[i])
  end
end

-- write writes all counts, if one of them has not recovered.
local function write()
  local list, last = {format('%d', now)}, now
  for i = 1, #counts do
    local c = counts[i]
    local over = c.p.alg.over(c.p, c.s)
    last = max(last, over)
    list[#list + 1] = c.p.name .. (c.replaced and '!' or '') .. (c.joined and '+' or '') .. (c.short and '-' or '') .. ' ' .. (next(c.s) and c.p.alg.write(c.p, c.s) or '')
  end
  if last <= now then
    if written then
      call('DEL', KEYS[1])
    end
    return
  end
  call('SET', KEYS[1], concat(list, '|') .. '|', 'PX', ceil((last - now) / 1000) + 1)
end

local function used(c)
  return c.p.n - c.p.alg.available(c.p, c.s)
end

local function drop(is)
  local old = counts
  counts, known = {}, {}
  for i = 1, #old do
    if not is(old[i]) then
      add(old[i])
    end
  end
end

local function over()
  for i = 1, #counts do
    local c = counts[i]
    if c.p.alg.over(c.p, c.s) > now then
      return false
    end
  end
  return true
end

-- charge takes n permits, or as many as the capacity allows.
local function charge(c, n)
  if c.p.alg.forget then
    n = min(n, c.p.n)
    c.p.alg.forget(c.p, c.s, n)
  else
    n = min(n, c.p.alg.available(c.p, c.s))
  end
  return n, n > 0 and c.p.alg.charge(c.p, c.s, now, now, n) or 0
end

-- pair reports whether limits differ only in the number of permits.
local function pair(p, o)
  return p.k == o.k and p.d == o.d and (p.k == 'b' or p.a == o.a and p.b == o.b)
end

local function pairsAny(plan, p)
  for i = 1, #plan do
    if pair(plan[i], p) then
      return true
    end
  end
  return false
end

-- use returns the usage with which a limit without a count starts, from the first counts: the largest
-- usage or, of several limits, the usage of the limit that it replaces.
local function use(p, plan, old)
  local paired, unpaired, largest, joined = -1, 0, 0, false
  for i = 1, old do
    local c = counts[i]
    local n = used(c)
    joined, largest = joined or c.joined, max(largest, n)
    if pair(c.p, p) then
      paired = max(paired, n)
    elseif not pairsAny(plan, c.p) then
      unpaired = max(unpaired, n)
    end
  end
  if #plan == 1 and not joined then
    return largest
  end
  return paired >= 0 and paired or unpaired
end

-- merge drops the count with the least usage that is not in force, and charges it to the count with
-- the largest.
local function merge(isPart)
  local least, most
  for i = 1, #counts do
    local c = counts[i]
    c.used = used(c)
    if not isPart[c.p.name] and (not least or c.used < least.used) then
      least = c
    end
    if not most or c.used > most.used then
      most = c
    end
  end
  if least ~= most then
    charge(most, least.used)
  end
  drop(function(c) return c == least end)
end

-- carry puts limits into force, and adds the missing counts, each with the past usage of the key as
-- one take.
local added = false
local function carry(plan)
  local isPart, missing, whole = {}, 0, over()
  for i = 1, #plan do
    isPart[plan[i].name] = true
  end
  drop(function(c)
    local part = isPart[c.p.name]
    return whole and not part or part and c.replaced and c.p.alg.over(c.p, c.s) <= now
  end)
  for i = 1, #plan do
    local c = known[plan[i].name]
    if c then
      c.replaced = false
    else
      missing = missing + 1
    end
  end
  if missing > 0 then
    while #counts + missing > 8 do
      merge(isPart)
    end
    local old = #counts
    for i = 1, #plan do
      if not known[plan[i].name] then
        local c = {p = plan[i], s = {}}
        charge(c, use(c.p, plan, old))
        add(c)
      end
    end
    added = true
  end
  drop(function(c) return c.replaced and c.p.alg.over(c.p, c.s) <= now end)
end

-- If the clock went back, all times are moved back too.
local changed = false
if written and written > now then
  for i = 1, #counts do
    if next(counts[i].s) then
      counts[i].p.alg.shift(counts[i].s, written - now, counts[i].p)
    end
  end
  changed = true
end
local looks = kind == 5 or cost == 0 and kind < 3
if changed and looks then
  write()
end

-- The last change of the limit, if the key was not used since then.
arg = arg + 1
if ARGV[arg] ~= '-1' then
  arg = arg - 1
  local plan, replaced = limits(), {}
  for i = 1, tonumber(take1()) do
    replaced[take1()] = true
  end
  local moment, present = now - tonumber(take1()), now
  if written and moment >= min(written, now) then
    local held = false
    for i = 1, #counts do
      if replaced[counts[i].p.name] then
        counts[i].replaced, held = true, true
      end
    end
    now = moment
    if held and not over() then
      carry(plan)
    end
    now = present
  end
end

-- refund gives permits back to each count that was charged.
if kind == 3 then
  local at = tonumber(take1())
  for _ = 1, tonumber(take1()) do
    local c, receipt, back = known[take1()], tonumber(take1()), tonumber(take1())
    if c and not c.short and next(c.s) and c.p.alg.refund(c.p, c.s, at, receipt, back) then
      changed = true
    end
  end
  if changed then
    write()
  end
elseif kind == 4 then
  counts, known, changed = {}, {}, true
  write()
end
carry(parts)

local allowed, granted, at = true, 0, now
local receipts, others = {}, {}

-- take takes n permits, at least 1, of all limits or of none.
local function take(n)
  local own = {}
  for i = 1, #parts do
    own[i] = parts[i].alg.earliest(parts[i], known[parts[i].name].s, n)
    at = max(at, own[i])
  end
  if at > now then
    allowed = kind == 2 and at - now <= wait
    for i = 1, #parts do
      allowed = allowed and parts[i].alg.fits(parts[i], known[parts[i].name].s, at, n)
    end
  end
  if not allowed or kind == 5 then
    return
  end
  for i = 1, #counts do
    counts[i].short = counts[i].short and counts[i].p.alg.over(counts[i].p, counts[i].s) > now
  end
  for i = 1, #parts do
    local p = parts[i]
    receipts[i] = p.alg.charge(p, known[p.name].s, own[i], at, n)
  end
  for i = 1, #counts do
    local c = counts[i]
    local other = true
    for j = 1, #parts do
      other = other and parts[j].name ~= c.p.name
    end
    c.joined = #parts > 1 and not other
    if other then
      c.short = c.short or c.p.alg.available(c.p, c.s) < n
      local taken, receipt = charge(c, n)
      if taken > 0 then
        others[#others + 1] = {string.byte(c.p.k), c.p.n, c.p.a, c.p.b, c.p.c, c.p.d, receipt, taken}
      end
    end
  end
  granted, changed = n, true
end

local asked = cost
if cost > capacity and kind ~= 1 then
  asked = 0 -- never allowed: only read the state
elseif kind == 0 or kind == 2 or kind == 5 then
  if cost > 0 then
    take(cost)
  end
elseif kind == 1 or kind == 6 then
  local most = kind == 6 and huge or cost
  for i = 1, #parts do
    most = min(most, parts[i].alg.available(parts[i], known[parts[i].name].s))
  end
  asked = min(1, cost)
  if most > 0 then
    take(most)
  elseif cost > 0 then
    take(1)
  end
end
if not looks and kind ~= 3 and kind ~= 4 and (changed or added and not over()) then
  if granted == 0 then
    for i = 1, #counts do
      counts[i].joined = false
    end
    for i = 1, #parts do
      known[parts[i].name].joined = #parts > 1
    end
  end
  write()
end

local reply = {now, allowed and granted or -1, at}
for i = 1, #parts do
  local p = parts[i]
  local a, b, c, d = p.alg.look(p, known[p.name].s, asked)
  reply[5 * i - 1], reply[5 * i], reply[5 * i + 1], reply[5 * i + 2], reply[5 * i + 3] = a, b, c, d, receipts[i] or 0
end
for i = 1, #others do
  for j = 1, 8 do
    reply[#reply + 1] = others[i][j]
  end
end
return reply
