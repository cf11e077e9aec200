-- Adds records.
--
-- ARGV[2..]  for each group: its option, FlushSize, MaxPending, MaxGroups, the sum of the sizes, whether
--            the records have a payload of their own, how many they are, and each record as in p,
--            without the arrival. With payloads of their own, each is followed by its payload, "f"
--            or "d", its key, and its addresses
--
-- Reply: for each group whether it is due, and a list of those that were not appended: the place of the
-- record from 1, and the ID of the one that holds its key, or "" if there are too many records or ""
-- at place 0 if there are too many groups.
local at, reply = 2, {}
local arrival = int(now) .. ' '
local n = tonumber(call('HGET', method, 'n')) or 0

-- Records with their payloads.
local function plain(opt, from, count, bytes, room, others)
  local entries = {}
  for i = 1, count do
    if i <= room then
      entries[i] = arrival .. ARGV[from + i - 1]
    else
      others[#others + 1] = i
      others[#others + 1] = ''
    end
  end
  if room < count then
    bytes = 0
    for i = 1, #entries do
      bytes = bytes + select(2, parts(entries[i]))
    end
  end
  push(base .. 'p:' .. opt, entries)
  return #entries, bytes
end

-- Gives the record that holds a key the payload, if it is pending, and adds the addresses.
local function join(opt, id, payload, size, addresses)
  local kind, where, was, key = about(call('HGET', base .. 'i:' .. opt, id))
  local more = 0
  if where == 'p' then
    call('HSET', base .. 'v:' .. opt, id, payload)
    call('HSET', base .. 'i:' .. opt, id, kind .. where .. size .. ' ' .. key)
    more = size - was
  end
  if addresses ~= '' then
    call('HSET', base .. 'w:' .. opt, id, (call('HGET', base .. 'w:' .. opt, id) or '') .. addresses)
  end
  return more
end

-- Records with payloads of their own.
local function full(opt, from, count, room, others)
  local added, bytes = 0, 0
  local p, v, k, i, w = {}, {}, {}, {}, {} -- what to write
  local mine = {} -- the new holders of keys
  local function write()
    push(base .. 'p:' .. opt, p)
    for kind, fields in pairs({v = v, k = k, i = i, w = w}) do
      each(fields, 2, function(...) call('HSET', base .. kind .. ':' .. opt, ...) end)
    end
    p, v, k, i, w = {}, {}, {}, {}, {}
  end
  local keys = {}
  for place = 1, count do
    keys[place] = ARGV[from + (place - 1) * 5 + 3]
  end
  local holders = call('EXISTS', base .. 'k:' .. opt) == 1 and values(base .. 'k:' .. opt, keys) or {}
  for place = 1, count do
    local at = from + (place - 1) * 5
    local entry, payload, kind, key, addresses = arrival .. ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    local _, size, id = parts(entry)
    local holder = key ~= '' and (mine[key] or holders[place])
    if holder then
      if mine[key] then
        write()
      end
      bytes = bytes + join(opt, holder, payload, size, addresses)
      others[#others + 1] = place
      others[#others + 1] = holder
    elseif added >= room then
      others[#others + 1] = place
      others[#others + 1] = ''
    else
      added, bytes = added + 1, bytes + size
      p[#p + 1] = entry
      v[#v + 1], v[#v + 2] = id, payload
      if key ~= '' then
        mine[key] = id
        k[#k + 1], k[#k + 2] = key, id
        i[#i + 1], i[#i + 2] = id, kind .. 'p' .. size .. ' ' .. key
      end
      if addresses ~= '' then
        w[#w + 1], w[#w + 2] = id, addresses
      end
    end
  end
  write()
  return added, bytes
end

local before = n
while at <= #ARGV do
  local opt, flush, most, groups = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local sum, own, count = tonumber(ARGV[at + 4]), ARGV[at + 5] == '1', tonumber(ARGV[at + 6])
  local from, others = at + 7, {}
  at = from + count * (own and 5 or 1)
  local g, due = base .. 'g:' .. opt, false
  local room, known = max(0, most - n), call('ZSCORE', all, opt)
  if room > 0 and not known and call('ZCARD', all) >= groups then
    others = {0, ''}
  else
    local added, bytes
    if own then
      added, bytes = full(opt, from, count, room, others)
    else
      added, bytes = plain(opt, from, count, sum, room, others)
    end
    n = n + added
    if bytes ~= 0 then
      call('HINCRBY', g, 'bytes', int(bytes))
    end
    if added > 0 and not known then
      call('ZADD', all, 0, opt)
    end
    local pending = call('LLEN', base .. 'p:' .. opt)
    local filled = added > 0 and flush > 0 and pending >= flush
    if filled then
      mark(opt)
    end
    if filled or pending == added or call('HEXISTS', g, 'paused') == 1 then
      due = place(opt)
    else
      due = call('ZSCORE', queue, opt)
    end
  end
  reply[#reply + 1] = {due and 1 or 0, others}
end
if n > before then
  call('HINCRBY', method, 'n', n - before)
end
return reply
