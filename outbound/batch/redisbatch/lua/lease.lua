-- Leases a batch of the first group of the queue.
--
-- ARGV[2]  the age at which records are due
-- ARGV[3]  the ID of a new batch; if it is that of a batch which has its first lease, that is handed
--          out again, since the reply was lost
-- ARGV[4]  the most records
-- ARGV[5]  the most bytes, or 0
-- ARGV[6]  the time of the lease
--
-- Reply: the state as of ready, and if there is a batch: its ID, option, deliveries, attempts, its
-- records as in p, their payloads, what there is about them, their addresses, 1 if a lease has expired,
-- and its losses.
local after, id, most, bytes, lease = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

-- The oldest pending records of a group within the limits, and the size of them.
local function oldest(opt)
  local taken, ids, sum, n = {}, {}, 0, 0
  while #taken < most do
    local chunk = call('LRANGE', base .. 'p:' .. opt, n, n + min(slice, most - #taken) - 1)
    if #chunk == 0 then
      break
    end
    local names = {}
    for i, entry in ipairs(chunk) do
      local _, _, name = parts(entry)
      names[i] = name
    end
    local keyed = call('EXISTS', base .. 'i:' .. opt) == 1 and values(base .. 'i:' .. opt, names)
    for i, entry in ipairs(chunk) do
      local _, size = parts(entry)
      if keyed and keyed[i] then
        _, _, size = about(keyed[i])
      end
      if bytes > 0 and #taken > 0 and sum + size > bytes then
        return taken, ids, sum
      end
      sum, n = sum + size, n + 1
      taken[#taken + 1], ids[#ids + 1] = entry, names[i]
    end
  end
  return taken, ids, sum
end

-- Makes a batch of the oldest pending records of a group.
local function make(opt)
  local g, p, b = base .. 'g:' .. opt, base .. 'p:' .. opt, base .. 'b:' .. id
  local taken, ids, sum = oldest(opt)
  release(opt, ids, false)
  push(base .. 'l:' .. id, taken)
  call('LTRIM', p, #taken, -1)
  call('HINCRBY', g, 'head', #taken)
  call('HINCRBY', g, 'bytes', int(0 - sum))
  call('HINCRBY', g, 'flight', #taken)
  call('HSET', b, 'o', opt, 'd', 1, 'a', 0, 'l', 1, 'x', 0)
end

-- Leases a batch once more, and reports whether it is leased already.
local function again(opt, id)
  local g, b = base .. 'g:' .. opt, base .. 'b:' .. id
  call('HINCRBY', b, 'd', 1)
  local was = call('HGET', b, 'l')
  call('HSET', b, 'l', 1)
  if was == '0' then
    local n = call('LLEN', base .. 'l:' .. id)
    call('HINCRBY', g, 'retry', 0 - n)
    call('HINCRBY', g, 'flight', n)
    return 0
  end
  if was == '1' then
    call('HINCRBY', b, 'x', 1)
  end
  return 1
end

relax()
promote(after)
local known = call('HMGET', base .. 'b:' .. id, 'o', 'd', 'l')
local opt, expired = known[1], 0
if opt and (known[2] ~= '1' or known[3] == '0' or tonumber(call('ZSCORE', base .. 't:' .. opt, id)) <= now) then
  return {state(after)} -- it is settled, or another lease has it
elseif not opt then
  opt = call('ZRANGE', queue, 0, 0)[1]
  if not opt then
    return {state(after)}
  end
  local waiting, at = first(base .. 't:' .. opt)
  if waiting and at <= now then
    id = waiting
    expired = again(opt, id)
  else
    make(opt)
  end
end
call('ZADD', base .. 't:' .. opt, int(now + lease), id)
call('HSET', base .. 'g:' .. opt, 'call', int(now))
local slot = int(math.floor(now / 10000000))
if call('HINCRBY', base .. 'calls', slot, 1) == 1 then
  for _, old in ipairs(call('HKEYS', base .. 'calls')) do
    if math.abs(old - slot) > 6 then
      call('HDEL', base .. 'calls', old)
    end
  end
end
call('PEXPIRE', base .. 'calls', 120000)
place(opt, true)

local entries, ids = call('LRANGE', base .. 'l:' .. id, 0, -1), {}
for i, entry in ipairs(entries) do
  local _, _, name = parts(entry)
  ids[i] = name
end
local function some(kind)
  local key = base .. kind .. opt
  return call('EXISTS', key) == 1 and values(key, ids) or {}
end
local b = call('HMGET', base .. 'b:' .. id, 'd', 'a', 'x')
local due, next, n = state(after)
return {due, next, n, id, opt, tonumber(b[1]), tonumber(b[2]), entries, some('v:'), some('i:'), some('w:'), expired, tonumber(b[3]) or 0}
