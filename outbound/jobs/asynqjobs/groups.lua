-- The groups of one queue. Times are in µs since 1970, by the clock of the queue, which is that of the server but never goes back.
--
-- KEYS[1]  the first part of the names of all keys of the queue. These are:
--   rec       a hash of all records by ID: 16 digits of the arrival, 8 digits of the length of the key, the key, and the payload
--   bat       a hash of all batches by ID, packed: o, the group; t, the turn; a, attempts; l, losses; h, 1 if it is taken
--             and not loaded, and 2 if it was given again since; n, the IDs of its records
--   m         a hash, while there are groups: at, a time that is over, and no older than a second if something has happened since; late,
--             by how much the clock of the server was set back; out, how many batches have h = 1; last, the last place in q
--   taken     a sorted set of the batches that are taken, by the time at which they are given again
--   all       a sorted set of all groups, by the time at which they were made
--   q         a sorted set of the groups that are due, by their turn
--   age       a sorted set of the groups of which no record is due, by the arrival of the oldest
--   wait      a sorted set of the groups with batches that wait, by the first time of these
--   err       a hash of the errors of failed records by ID
--   v         the time of the last change that Take can see, for a while
--   r:ID      the result of a record that is done
--   u:ID      the ID of the record that has taken the payload of this one, for as long as an Add can be repeated
-- and of each group:
--   g:GROUP   a hash: due, how many pending records are; flight and wait, how many are in batches that are taken and that wait;
--             paused; call; err
--   p:GROUP   a list of the IDs of pending records
--   k:GROUP   a hash of the IDs of pending records by key
--   t:GROUP   a sorted set of batches that wait, by time
--   f:GROUP   a list of the IDs of failed records
-- ARGV[1]  the operation, at the end of this file; ARGV[2..] its arguments
local call, base = redis.call, KEYS[1]
local max, min, sub, format = math.max, math.min, string.sub, string.format
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local rec, bat, meta, taken, all = base .. 'rec', base .. 'bat', base .. 'm', base .. 'taken', base .. 'all'
local queue, ages, waits, errs, changed = base .. 'q', base .. 'age', base .. 'wait', base .. 'err', base .. 'v'
local slice = 1000 -- the most values of a command, since unpack has a limit, and the most things of one step of a control

local function int(x)
  return format('%.0f', x)
end

-- A server that is out of memory refuses commands that need memory, until the script has written something. Records must still be able to
-- leave it.
if ARGV[1] ~= 'add' then
  call('DEL', base .. 'none')
end

local known = call('HMGET', meta, 'at', 'late')
local at, late = tonumber(known[1]), tonumber(known[2] or 0)
now = now + late
if at and now < at then
  late, now = late + at - now, at
  call('HSET', meta, 'late', int(late))
elseif at and now >= at + 1000000 then
  call('HSET', meta, 'at', int(now))
end

-- Sends a command with many values in slices.
local function each(values, f)
  local found = {}
  for from = 1, #values, slice do
    local reply = f(unpack(values, from, min(from + slice - 1, #values)))
    if type(reply) == 'table' then
      for _, v in ipairs(reply) do
        found[#found + 1] = v
      end
    end
  end
  return found
end

local function read(key, fields)
  return each(fields, function(...) return call('HMGET', key, ...) end)
end

local function drop(key, fields)
  each(fields, function(...) return call('HDEL', key, ...) end)
end

local function push(key, values)
  each(values, function(...) return call('RPUSH', key, ...) end)
end

local function number(key, field)
  return tonumber(call('HGET', key, field) or 0)
end

local function add(key, field, n)
  if n ~= 0 then
    call('HINCRBY', key, field, n)
  end
end

-- The arrival, the key and the payload of a record.
local function parts(value)
  local length = tonumber(sub(value, 17, 24))
  return tonumber(sub(value, 1, 16)), sub(value, 25, 24 + length), sub(value, 25 + length)
end

local function first(key)
  local found = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return found[1], tonumber(found[2])
end

local function get(id)
  local value = call('HGET', bat, id)
  return value and cmsgpack.unpack(value)
end

local function put(id, b)
  call('HSET', bat, id, cmsgpack.pack(b))
end

local function oldest(opt)
  local id = call('LINDEX', base .. 'p:' .. opt, 0)
  return id and parts(call('HGET', rec, id))
end

-- Notes that there is something that Take has not seen.
local function touch()
  call('SET', changed, int(now), 'PX', 600000)
end

-- Moves a group to the set where it belongs after a change: it is due, waits for its time, or ends. A group that is due keeps its turn;
-- after it was served, it goes to the end.
local function place(opt, served)
  local g = base .. 'g:' .. opt
  touch()
  local is = call('HMGET', g, 'due', 'paused', 'flight')
  local due, old = tonumber(is[1] or 0) > 0, oldest(opt)
  local waiting, at = first(base .. 't:' .. opt)
  local free = not is[2]
  if free and (due and old or at and at <= now) then
    if served or not call('ZSCORE', queue, opt) then
      local last = max(now, number(meta, 'last') + 1)
      call('HSET', meta, 'last', int(last))
      call('ZADD', queue, int(last), opt)
    end
  else
    call('ZREM', queue, opt)
  end
  if free and old and not due then
    call('ZADD', ages, int(old), opt)
  else
    call('ZREM', ages, opt)
  end
  if free and at and at > now then
    call('ZADD', waits, int(at), opt)
  else
    call('ZREM', waits, opt)
  end
  if free and not old and not waiting and tonumber(is[3] or 0) == 0 and call('EXISTS', base .. 'f:' .. opt) == 0 then
    call('DEL', g)
    call('ZREM', all, opt)
    if call('EXISTS', all) == 0 then
      call('DEL', meta)
    end
  end
end

-- Notes that a group exists.
local function made(opt)
  call('ZADD', all, 'NX', int(now), opt)
  call('HSETNX', meta, 'at', int(now))
end

local function mark(opt)
  call('HSET', base .. 'g:' .. opt, 'due', call('LLEN', base .. 'p:' .. opt))
end

-- Makes groups due whose time has come, in the order of these times, at most a slice of each kind at once.
local function promote(after)
  local due = {}
  local function find(set, later)
    local found = call('ZRANGEBYSCORE', set, '-inf', int(now - later), 'WITHSCORES', 'LIMIT', 0, slice)
    for i = 1, #found, 2 do
      due[#due + 1] = {opt = found[i], at = found[i + 1] + later, aged = later > 0}
    end
  end
  find(ages, after)
  find(waits, 0)
  table.sort(due, function(x, y) return x.at < y.at end)
  for _, d in ipairs(due) do
    if d.aged then
      mark(d.opt)
    end
    place(d.opt)
  end
end

-- ARGV: the group, ID, key and payload of a record; how many make the group due, or 0; how many can be there.
-- Reply: the ID of the record, or "" if there are too many, and whether the group is due.
local function added()
  local opt, id, key, payload, flush, most = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
  local keys = base .. 'k:' .. opt
  local known = key ~= '' and call('GET', base .. 'u:' .. id) -- an Add is repeated if its reply was lost
  if not known and (call('HEXISTS', rec, id) == 1 or call('EXISTS', base .. 'r:' .. id) == 1) then
    known = id
  end
  local holder = not known and key ~= '' and call('HGET', keys, key)
  if known then
    id = known
  elseif holder then
    call('HSET', rec, holder, sub(call('HGET', rec, holder), 1, 24 + #key) .. payload)
    call('SET', base .. 'u:' .. id, holder, 'PX', 60000)
    id = holder
  else
    if call('HLEN', rec) >= most then
      return {'', 0}
    end
    call('HSET', rec, id, format('%016.0f%08d', now, #key) .. key .. payload)
    local n = call('RPUSH', base .. 'p:' .. opt, id)
    if key ~= '' then
      call('HSET', keys, key, id)
    end
    local full = flush > 0 and n >= flush
    if full then
      mark(opt)
    end
    if n == 1 then
      made(opt)
    end
    if n == 1 or full then
      place(opt)
    else
      touch()
    end
  end
  return {id, call('ZSCORE', queue, opt) and 1 or 0}
end

-- Makes a batch of the oldest pending records of a group.
local function make(opt, most, bytes)
  local p, k, g = base .. 'p:' .. opt, base .. 'k:' .. opt, base .. 'g:' .. opt
  local ids, sum = call('LRANGE', p, 0, most - 1), 0
  if bytes > 0 or call('EXISTS', k) == 1 then
    for i, value in ipairs(read(rec, ids)) do
      local _, key, payload = parts(value)
      sum = sum + #payload
      if bytes > 0 and i > 1 and sum > bytes then
        ids = call('LRANGE', p, 0, i - 2)
        break
      end
      if key ~= '' and call('HGET', k, key) == ids[i] then
        call('HDEL', k, key)
      end
    end
  end
  call('LTRIM', p, #ids, -1)
  call('HSET', g, 'due', max(0, number(g, 'due') - #ids))
  return {o = opt, t = 0, a = 0, l = 0, n = ids}
end

-- Returns the batch with an ID, if it is taken in a turn.
local function held(id, turn)
  local b = get(id)
  if b and b.t == tonumber(turn) and call('ZSCORE', taken, id) then
    return b
  end
end

-- ARGV: the age at which records are due, the ID of a new batch, the most records and bytes of it, how many batches can be taken and
-- not loaded, after which time one is given again, and how many records make a group due, or 0.
-- Reply: the time until a group is due, or -1, the number of records, v, or "" if a group is due now, and the ID, turn, group, attempts
-- and losses of the batch.
local function take()
  local after, id, most, bytes, ahead, again = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
  local flush = tonumber(ARGV[8])
  if call('EXISTS', all) == 0 then
    return {-1, 0, call('GET', changed) or '0'}
  end
  for _, opt in ipairs(flush > 0 and call('ZRANGE', all, 0, -1) or {}) do
    if call('LLEN', base .. 'p:' .. opt) >= flush then
      mark(opt)
      place(opt)
    end
  end
  promote(after)
  local b
  local old, at = first(taken)
  local opt = call('ZRANGE', queue, 0, 0)[1]
  if call('HEXISTS', bat, id) == 1 then -- this is repeated, since its reply was lost
    b = held(id, 1)
  elseif old and at <= now then
    id, b = old, get(old)
    if b.h == 1 then -- its job waits in some process: the others go on
      b.h = 2
      put(id, b)
      add(meta, 'out', -1)
    end
  elseif opt and number(meta, 'out') < ahead then
    local t, g = base .. 't:' .. opt, base .. 'g:' .. opt
    local waiting, till = first(t)
    if waiting and (till <= now or not oldest(opt)) then -- the clock can have gone back by less than a second
      id, b = waiting, get(waiting)
      call('ZREM', t, id)
      add(g, 'wait', -#b.n)
    else
      b = make(opt, most, bytes)
    end
    b.t, b.h = b.t + 1, 1
    put(id, b)
    add(meta, 'out', 1)
    add(g, 'flight', #b.n)
    call('HSET', g, 'call', int(now))
    place(opt, true)
  end
  if b then
    call('ZADD', taken, int(now + again), id)
  end
  local next = -1
  local function soon(key, later)
    local _, at = first(key)
    if at then
      at = max(0, at + later - now)
      next = next < 0 and at or min(next, at)
    end
  end
  soon(ages, after)
  soon(waits, 0)
  soon(taken, 0)
  if b then
    return {next, call('HLEN', rec), '', id, b.t, b.o, b.a, b.l}
  end
  return {next, call('HLEN', rec), call('EXISTS', queue) == 0 and (call('GET', changed) or '0') or ''}
end

-- ARGV: the ID and turn of a batch, and after which time it is given again, if its job is lost.
-- Reply: its group, attempts, losses, the IDs of its records, and the records.
local function load()
  local id = ARGV[2]
  local b = held(id, ARGV[3])
  if not b then
    return {}
  end
  call('ZADD', taken, int(now + ARGV[4]), id)
  if b.h > 0 then
    add(meta, 'out', b.h - 2)
    b.h = 0
    put(id, b)
  end
  return {b.o, b.a, b.l, b.n, read(rec, b.n)}
end

-- ARGV: the ID and turn of a batch, an error or "", its parts as JSON, with times in ns and places from 0; then of each result: the place
-- from 1, "d" or "f", and the value or error.
-- Reply: whether the batch was there.
local function replace()
  local id = ARGV[2]
  local b = held(id, ARGV[3])
  if not b then
    return {0}
  end
  local opt = b.o
  local g, t, f = base .. 'g:' .. opt, base .. 't:' .. opt, base .. 'f:' .. opt
  call('HDEL', bat, id)
  call('ZREM', taken, id)
  add(g, 'flight', -#b.n)
  add(meta, 'out', b.h == 1 and -1 or 0)
  local others = ARGV[5] ~= 'null' and cjson.decode(ARGV[5]) or {}
  for i, p in ipairs(others) do
    local part = {o = opt, t = p.ID == id and b.t or 0, a = p.Attempts, l = p.Losses, h = 0, n = {}}
    for k, place in ipairs(p.Records) do
      part.n[k] = b.n[place + 1]
    end
    put(p.ID, part)
    call('ZADD', t, int(now + math.ceil(p.After / 1000) + i - #others), p.ID) -- in this order
    add(g, 'wait', #part.n)
  end
  local done, lost, texts = {}, {}, {}
  for i = 6, #ARGV, 3 do
    local name = b.n[tonumber(ARGV[i])]
    if ARGV[i + 1] == 'd' then
      done[#done + 1] = name
      call('SET', base .. 'r:' .. name, ARGV[i + 2], 'PX', 600000)
    else
      lost[#lost + 1], texts[#texts + 1], texts[#texts + 2] = name, name, ARGV[i + 2]
    end
  end
  drop(rec, done)
  push(f, lost)
  each(texts, function(...) call('HSET', errs, ...) end)
  if ARGV[4] ~= '' then
    call('HSET', g, 'err', ARGV[4])
  end
  place(opt)
  return {1}
end

-- Verbs of groups. Each returns how many records it has changed, and whether there are more.
local verbs = {}

function verbs.flush(opt)
  local t = base .. 't:' .. opt
  mark(opt)
  local later = call('ZRANGEBYSCORE', t, '(' .. int(now), '+inf')
  for i, id in ipairs(later) do
    call('ZADD', t, int(now + i - #later), id) -- in this order
  end
  return call('LLEN', base .. 'p:' .. opt) + number(base .. 'g:' .. opt, 'wait'), 0
end

function verbs.pause(opt)
  call('HSET', base .. 'g:' .. opt, 'paused', 1)
  made(opt)
  return 0, 0
end

function verbs.resume(opt)
  call('HDEL', base .. 'g:' .. opt, 'paused')
  return 0, 0
end

function verbs.retry(opt)
  local f, p = base .. 'f:' .. opt, base .. 'p:' .. opt
  local ids = call('LRANGE', f, -slice, -1)
  for _ = 1, #ids do
    call('RPOPLPUSH', f, p)
  end
  if #ids > 0 then
    drop(errs, ids)
    mark(opt)
  end
  return #ids, call('EXISTS', f)
end

function verbs.delete(opt)
  local p, f, t, g = base .. 'p:' .. opt, base .. 'f:' .. opt, base .. 't:' .. opt, base .. 'g:' .. opt
  local n = 0
  for _, key in ipairs({p, f}) do
    local ids = call('LRANGE', key, 0, slice - 1)
    drop(rec, ids)
    drop(errs, ids)
    call('LTRIM', key, #ids, -1)
    n = n + #ids
  end
  call('UNLINK', base .. 'k:' .. opt)
  call('HDEL', g, 'due')
  local function lose(set, id, b, field)
    drop(rec, b.n)
    call('HDEL', bat, id)
    call('ZREM', set, id)
    add(g, field, -#b.n)
    n = n + #b.n
  end
  for _, id in ipairs(call('ZRANGE', t, 0, 9)) do
    lose(t, id, get(id), 'wait')
  end
  local more = call('EXISTS', p, f, t)
  for _, id in ipairs(more == 0 and number(g, 'flight') > 0 and call('ZRANGE', taken, 0, -1) or {}) do
    local b = get(id)
    if b.o == opt and b.h > 0 then -- its records were not loaded yet
      lose(taken, id, b, 'flight')
      add(meta, 'out', b.h == 1 and -1 or 0)
    end
  end
  return n, more
end

-- ARGV: a verb, and groups. Reply: how many records were changed, and whether there are more.
local function control()
  local n, more = 0, 0
  for i = 3, #ARGV do
    if ARGV[2] == 'pause' or call('ZSCORE', all, ARGV[i]) then
      local changed, left = verbs[ARGV[2]](ARGV[i])
      n, more = n + changed, max(more, left)
      place(ARGV[i])
    end
  end
  return {n, more}
end

-- ARGV: the age at which records are due, and groups. Reply: of each its name; how many records are pending, in flight, failed; whether it
-- is paused; the arrival of the oldest, also of those of the batch that waits for the earliest time; when it is due; the last call and
-- error. Times are those of the server, or 0.
local function groups()
  local reply = {}
  local function shown(t)
    return t and t - late or 0
  end
  for i = 3, #ARGV do
    local opt = ARGV[i]
    local g = call('HMGET', base .. 'g:' .. opt, 'due', 'wait', 'flight', 'paused', 'call', 'err')
    local old, id, at = oldest(opt), first(base .. 't:' .. opt)
    local due = old and (tonumber(g[1] or 0) > 0 and old or old + ARGV[2])
    if id then
      local arrival = parts(call('HGET', rec, get(id).n[1]))
      old, due = min(old or arrival, arrival), min(due or at, at)
    end
    reply[#reply + 1] = {opt, call('LLEN', base .. 'p:' .. opt) + tonumber(g[2] or 0), tonumber(g[3] or 0), call('LLEN', base .. 'f:' .. opt),
      g[4] and 1 or 0, shown(old), shown(due), shown(tonumber(g[5])), g[6] or ''}
  end
  return reply
end

-- ARGV: a group, and a range. Reply: the IDs of its failed records, the records, and their errors.
local function failed()
  local ids = call('LRANGE', base .. 'f:' .. ARGV[2], ARGV[3], ARGV[4])
  return {ids, read(rec, ids), read(errs, ids)}
end

-- ARGV: the IDs of records. Reply: of each "d" or "f" and its result, "w" if it has none yet, or "" if it is not known.
local function results()
  local reply = {}
  for i = 2, #ARGV do
    local id = ARGV[i]
    local value = call('GET', base .. 'r:' .. id)
    local text = not value and call('HGET', errs, id)
    if value then
      reply[#reply + 1] = 'd' .. value
    elseif text then
      reply[#reply + 1] = 'f' .. text
    else
      reply[#reply + 1] = call('HEXISTS', rec, id) == 1 and 'w' or ''
    end
  end
  return reply
end

local operations = {add = added, take = take, load = load, replace = replace, control = control, groups = groups, failed = failed, results = results}
return operations[ARGV[1]]()
