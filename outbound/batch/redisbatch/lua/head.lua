-- The first part of all scripts. All times are in µs since the beginning of 2020.
--
-- KEYS[1]  the first part of the names of all keys of a method. These are:
--   m          a hash: n, the number of records that are pending or in batches; last, the last place in q
--   all        a sorted set of the options of all groups, with equal scores
--   q          a sorted set of the groups that are due, by their place in the queue
--   age        a sorted set of the groups with pending records of which none is due, by the arrival of
--              the oldest
--   wait       a sorted set of the groups with batches that are not due, by the first time of these
--   calls      a hash of the number of leases in each ten seconds
--   a:PROCESS  a list of the replies to a process
-- of each group:
--   g:OPTION   a hash: head, how many records have left p; mark, up to which number records are due;
--              bytes; flight and retry, how many records are in batches that are leased and that
--              are not; dropped; paused; call; err, errat
--   p:OPTION   a list of the pending records, as "ARRIVAL SIZE LENGTH=ID" and the payload; or with ":"
--              and without the payload, if that is large or can be replaced
--   v:OPTION   a hash of the other payloads by ID, of all records of the group
--   i:OPTION   a hash of what there is about records with a key, by ID: "f" or, if the record is
--              unique until it is done, "d"; "p" or, if it is in a batch, "b"; its size, " ", its key
--   k:OPTION   a hash of the IDs of the records that hold keys, by key
--   w:OPTION   a hash of the addresses of records, by ID: "LENGTH:PROCESS" and "LENGTH:CALL" of each
--   f:OPTION   a list of the failed records, as p
--   t:OPTION   a sorted set of the batches, by the end of their lease, or the time until they wait
-- and of each batch:
--   b:ID       a hash: o, its option; d, the number of leases; a, the attempts; l, 1 if it is leased for
--              a call, 2 if it is leased and waits, otherwise 0; x, its losses
--   l:ID       a list of its records, as p
-- ARGV[1]  the time, or '' for that of the server
local call, base = redis.call, KEYS[1]
local max, min = math.max, math.min
local format, sub, match, find = string.format, string.sub, string.match, string.find
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = (t[1] - 1577836800) * 1000000 + t[2]
end
local method, all, queue, ages, waits = base .. 'm', base .. 'all', base .. 'q', base .. 'age', base .. 'wait'
local slice = 500 -- the most values of a command: unpack has a limit

-- Makes a script work on a server that is out of memory, which refuses commands that need memory until
-- the script has written something: records must be able to leave.
local function relax()
  call('DEL', base .. 'none')
end

local function int(x)
  return format('%.0f', x)
end

-- Sends a command with many values, in slices. step is how many belong together.
local function each(values, step, f)
  local size = slice * step
  for from = 1, #values, size do
    f(unpack(values, from, min(from + size - 1, #values)))
  end
end

local function push(key, values)
  each(values, 1, function(...) call('RPUSH', key, ...) end)
end

-- The values of fields of a hash, false for those that it does not have.
local function values(key, fields)
  local found = {}
  each(fields, 1, function(...)
    for _, value in ipairs(call('HMGET', key, ...)) do
      found[#found + 1] = value
    end
  end)
  return found
end

local function drop(key, fields)
  each(fields, 1, function(...) call('HDEL', key, ...) end)
end

-- The parts of a record in a list: its arrival, size and ID.
local function parts(entry)
  local arrival, size, length, from = match(entry, '^(%d+) (%d+) (%d+)[:=]()')
  return tonumber(arrival), tonumber(size), sub(entry, from, from + length - 1)
end

-- The parts of what there is about a record with a key.
local function about(text)
  local kind, state, size, key = match(text, '^(.)(.)(%d+) (.*)$')
  return kind, state, tonumber(size), key
end

-- A place at the end of the queue.
local function last()
  local at = max(now, (tonumber(call('HGET', method, 'last')) or 0) + 1)
  call('HSET', method, 'last', int(at))
  return int(at)
end

local function first(key)
  local found = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return found[1], tonumber(found[2])
end

-- Puts a group where it belongs after each change: it is in the queue, or it waits for its time, or it
-- ends. A group that stays in the queue keeps its place, unless it is served: then it goes to the end.
local function place(opt, served)
  local g = base .. 'g:' .. opt
  local is = call('HMGET', g, 'head', 'mark', 'paused')
  local n, _, at = call('LLEN', base .. 'p:' .. opt), first(base .. 't:' .. opt)
  if n == 0 and not at and not is[3] and call('EXISTS', base .. 'f:' .. opt) == 0 then
    call('DEL', g, base .. 'v:' .. opt, base .. 'i:' .. opt, base .. 'k:' .. opt, base .. 'w:' .. opt)
    call('ZREM', all, opt)
    if call('EXISTS', all) == 0 then
      call('DEL', method)
    end
    is[3] = '1'
  end
  local marked = n > 0 and tonumber(is[2] or 0) > tonumber(is[1] or 0)
  local due = marked or at and at <= now
  if is[3] or not due then
    call('ZREM', queue, opt)
  elseif served or not call('ZSCORE', queue, opt) then
    call('ZADD', queue, last(), opt)
  end
  if n == 0 or marked then
    call('ZREM', ages, opt)
  else
    call('ZADD', ages, int(parts(call('LINDEX', base .. 'p:' .. opt, 0))), opt)
  end
  if at and at <= now then
    at = tonumber(call('ZRANGE', base .. 't:' .. opt, '(' .. int(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2] or "")
  end
  if at then
    call('ZADD', waits, int(at), opt)
  else
    call('ZREM', waits, opt)
  end
  return due
end

-- Marks the pending records of a group as due.
local function mark(opt)
  local n = call('LLEN', base .. 'p:' .. opt)
  if n > 0 then
    local g = base .. 'g:' .. opt
    call('HSET', g, 'mark', int((tonumber(call('HGET', g, 'head')) or 0) + n))
  end
end

-- Puts the groups into the queue whose time has come, in the order of these times, at most a slice of
-- each kind: the others have later times, so the next call is early enough.
local function promote(after)
  local due = {}
  local function read(set, later)
    local found = call('ZRANGE', set, '-inf', int(now - later), 'BYSCORE', 'LIMIT', 0, slice, 'WITHSCORES')
    for i = 1, #found, 2 do
      due[#due + 1] = {opt = found[i], at = found[i + 1] + later, aged = set == ages}
    end
  end
  read(ages, after)
  read(waits, 0)
  table.sort(due, function(x, y) return x.at < y.at end)
  for _, d in ipairs(due) do
    if d.aged then
      mark(d.opt)
    end
    place(d.opt)
  end
end

-- The state of a method: whether a group is due; how long until the next one, or -1; the number of records.
local function state(after)
  local _, age = first(ages)
  local _, wait = first(waits)
  local next = -1
  if age or wait then
    next = max(0, min(age and age + after or wait, wait or age + after) - now)
  end
  return call('EXISTS', queue), next, tonumber(call('HGET', method, 'n')) or 0
end

-- Releases the keys of records, and forgets them if they end.
local function release(opt, ids, ends)
  local i, k = base .. 'i:' .. opt, base .. 'k:' .. opt
  if call('EXISTS', i) == 0 then
    return
  end
  for n, text in ipairs(values(i, ids)) do
    if text then
      local kind, _, size, key = about(text)
      if (ends or kind == 'f') and call('HGET', k, key) == ids[n] then
        call('HDEL', k, key)
      end
      if not ends then
        call('HSET', i, ids[n], kind .. 'b' .. size .. ' ' .. key)
      end
    end
  end
  if ends then
    drop(i, ids)
  end
end

-- Sends a reply to all addresses in a value of w. Replies are kept for ten minutes.
local function answer(addresses, kind, text)
  local at, process = 1, nil
  while at <= #addresses do
    local colon = find(addresses, ':', at, true)
    local stop = colon + tonumber(sub(addresses, at, colon - 1))
    local word = sub(addresses, colon + 1, stop)
    if process then
      local key = base .. 'a:' .. process
      call('RPUSH', key, kind .. #word .. ':' .. word .. text)
      call('PEXPIRE', key, 600000)
      process = nil
    else
      process = word
    end
    at = stop + 1
  end
end
