-- Adds records.
--
-- ARGV[2..]  for each group: its option, FlushSize, MaxPending, MaxGroups, whether the records have keys or
--            addresses, how many they are, and for each record: its payload and "SIZE ID"; and with
--            keys or addresses: "f" or "d", its key, and its addresses
--
-- Reply: for each group whether it is due, and a list of those that were not appended: the place of the
-- record from 1, and the ID of the one that holds its key, or "" if there are too many records or ""
-- at place 0 if there are too many groups.
local at, reply = 2, {}
local arrival = int(now) .. ' '
local n = tonumber(call('HGET', method, 'n')) or 0

-- Records without keys and addresses.
local function plain(opt, from, to)
  local entries, fields, bytes = {}, {}, 0
  for i = from, to - 1, 2 do
    local entry = ARGV[i + 1]
    local space = find(entry, ' ', 1, true)
    bytes = bytes + sub(entry, 1, space - 1)
    entries[#entries + 1] = arrival .. entry
    fields[#fields + 1] = sub(entry, space + 1)
    fields[#fields + 1] = ARGV[i]
  end
  each(fields, 2, function(...) call('HSET', base .. 'v:' .. opt, ...) end)
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

-- Records with keys or addresses.
local function full(opt, from, to, room, others)
  local added, bytes = 0, 0
  for i = from, to - 4, 5 do
    local payload, entry, kind, key, addresses = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
    local size, id = match(entry, '^(%d+) (.*)$')
    local holder = key ~= '' and call('HGET', base .. 'k:' .. opt, key)
    if holder then
      bytes = bytes + join(opt, holder, payload, size, addresses)
      others[#others + 1] = (i - from) / 5 + 1
      others[#others + 1] = holder
    elseif added >= room then
      others[#others + 1] = (i - from) / 5 + 1
      others[#others + 1] = ''
    else
      added, bytes = added + 1, bytes + size
      call('HSET', base .. 'v:' .. opt, id, payload)
      call('RPUSH', base .. 'p:' .. opt, arrival .. entry)
      if key ~= '' then
        call('HSET', base .. 'k:' .. opt, key, id)
        call('HSET', base .. 'i:' .. opt, id, kind .. 'p' .. size .. ' ' .. key)
      end
      if addresses ~= '' then
        call('HSET', base .. 'w:' .. opt, id, addresses)
      end
    end
  end
  return added, bytes
end

while at <= #ARGV do
  local opt, flush, most, groups = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local width, count = ARGV[at + 4] == '1' and 5 or 2, tonumber(ARGV[at + 5])
  local from, others = at + 6, {}
  at = from + width * count
  local g, due = base .. 'g:' .. opt, false
  local room = max(0, most - n)
  if room > 0 and not call('ZSCORE', all, opt) and call('ZCARD', all) >= groups then
    others = {0, ''}
  else
    local added, bytes
    if width == 5 then
      added, bytes = full(opt, from, at - 1, room, others)
    else
      added, bytes = plain(opt, from, from + width * min(room, count) - 1)
      for i = added + 1, count do
        others[#others + 1] = i
        others[#others + 1] = ''
      end
    end
    n = n + added
    if bytes ~= 0 then
      call('HINCRBY', g, 'bytes', int(bytes))
    end
    if added > 0 then
      call('HINCRBY', method, 'n', added)
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
return reply
