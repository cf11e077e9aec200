-- The operations on a queue of asynq that jobs need in addition to its own. Times are in seconds since 1970, as asynq
-- keeps them.
--
-- KEYS[1]  the prefix of the names of the queue's keys; look has none, and a prefix for each queue
-- ARGV[1]  the operation, at the end of this file; ARGV[2..] its arguments
--
-- The hash of a task has fields that asynq does not know, and that are deleted with it:
--   gresil-lost   how many leases have expired during the attempt
--   gresil-waits  the lease is not for an attempt yet
local call = redis.call
local far = 10000000000 -- the score from which a task in the set of retries counts as failed: asynq drops archived tasks
local heldBy = 'gresil:hold'
local longest = 10000 -- ms of a hold

local function upTo(key, score)
  return call('ZCOUNT', key, '-inf', score)
end

-- Lets jobs run again whose leases have expired, and counts the losses. It appends mark to their messages. It takes all of them, since asynq
-- would let the others run again without counting. A process of asynq may have just read the same leases, and must find no active task: so
-- a job does not run again before a second has passed.
local function recover(p, lost, now, mark)
  for _, id in ipairs(call('LRANGE', p .. 'active', 0, -1)) do -- in this order, LREM finds each of them near the head
    local key, lease = p .. 't:' .. id, tonumber(call('ZSCORE', p .. 'lease', id) or now)
    local msg = lease <= lost and call('HGET', key, 'msg')
    if msg then
      call('LREM', p .. 'active', 1, id)
      call('ZREM', p .. 'lease', id)
      if call('HDEL', key, 'gresil-waits') == 0 then
        call('HINCRBY', key, 'gresil-lost', 1)
        msg = msg .. mark
      end
      call('HSET', key, 'msg', msg, 'state', 'retry')
      call('ZADD', p .. 'retry', now + 2, id)
    end
  end
end

-- Gives active tasks that have no lease an expired one, since asynq would never deliver them again. There are such tasks after certain
-- errors of Redis. If a process does run one of them, it extends the lease.
local function repair(p, now)
  for _, id in ipairs(call('LRANGE', p .. 'active', 0, -1)) do
    if not call('ZSCORE', p .. 'lease', id) then
      if call('EXISTS', p .. 't:' .. id) == 0 then
        call('LREM', p .. 'active', 0, id)
      else
        call('ZADD', p .. 'lease', 'NX', now, id)
        call('HSET', p .. 't:' .. id, 'gresil-waits', 1) -- no process has ended with it
      end
    end
  end
end

-- Deletes jobs whose Retain is over, since the janitor of asynq runs only while a server does.
local function clean(p, now)
  for _, id in ipairs(call('ZRANGEBYSCORE', p .. 'completed', '-inf', now, 'LIMIT', 0, 1000)) do
    call('DEL', p .. 't:' .. id)
    call('ZREM', p .. 'completed', id)
  end
end

local some, all = {'pending'}, {'pending', 'active', 'scheduled', 'retry', 'archived', 'completed', 'paused'}

-- ARGV: the time; the one up to which a lease has ended with its process; whether only pending jobs count; what recover appends to a
-- message, or "": then nothing is recovered; whether the queues are looked at together, so that idle ones cost one command, as a
-- command in a Cluster cannot; and the prefixes of the queues.
-- Reply: of each queue that is not empty its index; whether it has jobs that can run; whether it is paused; when its oldest job became
-- pending, or due, in µs, or 0; how many jobs are pending, scheduled, active, failed, done, and scheduled within a minute.
local function look()
  local now, lost, pendingOnly, mark, first = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1', ARGV[5], 7
  local found = {}
  local function read(i)
    local p = ARGV[i]
    local pending, by = call('LLEN', p .. 'pending'), call('GET', p .. 'paused')
    local paused = by and by ~= heldBy and 1 or 0
    if pendingOnly then
      found[#found + 1] = {i - first, pending > 0 and not by and 1 or 0, paused, 0, pending}
      return
    end
    local scheduled, retry, completed, active = p .. 'scheduled', p .. 'retry', p .. 'completed', call('LLEN', p .. 'active')
    local due, failed, over = upTo(scheduled, now) + upTo(retry, now), call('ZCOUNT', retry, far, '+inf'), upTo(completed, now)
    local waiting, oldest = call('ZCARD', scheduled) + call('ZCARD', retry) - failed, call('LINDEX', p .. 'pending', -1)
    local leases, since = call('ZCARD', p .. 'lease'), (oldest and call('HGET', p .. 't:' .. oldest, 'pending_since') or 0) / 1000
    for _, key in ipairs(due > 0 and {scheduled, retry} or {}) do
      local at = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or far)
      if at <= now and (since == 0 or at * 1000000 < since) then
        since = at * 1000000
      end
    end
    found[#found + 1] = {
      i - first, pending + due > 0 and not by and 1 or 0, paused, math.floor(since), pending + due, waiting - due, active,
      failed + call('ZCARD', p .. 'archived'), call('ZCARD', completed) - over, upTo(scheduled, now + 60) + upTo(retry, now + 60) - due,
    }
    if mark ~= '' and over > 0 then
      clean(p, now)
    end
    if mark ~= '' and by == heldBy and call('PTTL', p .. 'paused') > longest then
      call('DEL', p .. 'paused') -- the clock of Redis was set back after the hold had begun
    end
    if mark ~= '' and upTo(p .. 'lease', lost) > 0 then
      recover(p, lost, now, mark)
    end
    if mark ~= '' and active > leases then
      repair(p, now)
    end
  end
  local function search(from, to)
    local keys = {}
    for i = from, to do
      for _, name in ipairs(pendingOnly and some or all) do
        keys[#keys + 1] = ARGV[i] .. name
      end
    end
    if call('EXISTS', unpack(keys)) == 0 then
      return
    elseif from == to then
      return read(from)
    end
    local middle = math.floor((from + to) / 2)
    search(from, middle)
    search(middle + 1, to)
  end
  local together = ARGV[6] == '1' and #ARGV - first + 1 or 1
  for i = first, #ARGV, together do
    search(i, i + together - 1)
  end
  return found
end

-- Carries out a verb: it pauses or resumes the queue, lets a waiting task run now, deletes a task that is not active, or frees the ID of a
-- task that has failed, or that is done and past its retention but not deleted yet. A task that runs now has used no attempt: field 6 of
-- the encoding is the number of those used, and its last value counts.
-- ARGV: the verb, the ID, the time. Reply: whether it could.
local function control()
  local prefix, verb, id, now = KEYS[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
  if verb == 'pause' then
    call('SET', prefix .. 'paused', ARGV[4])
    return 1
  elseif verb == 'resume' then
    call('DEL', prefix .. 'paused')
    return 1
  end
  local key = prefix .. 't:' .. id
  local state = call('HGET', key, 'state')
  if not state then
    call('DEL', key) -- it can have a field of ours, if the job has ended meanwhile
    return verb == 'free' and 1 or 0
  end
  local score = state ~= 'active' and state ~= 'pending' and tonumber(call('ZSCORE', prefix .. state, id) or -1)
  if state == 'active' or verb == 'retry' and (not score or state == 'completed')
    or verb == 'free' and not (state == 'archived' or state == 'retry' and score >= far or state == 'completed' and score <= now) then
    return 0
  elseif verb == 'free' then
    call('HSET', key, 'state', state) -- changes nothing, but fails if Redis is full: then the new job could not be added
  end
  if score then
    call('ZREM', prefix .. state, id)
  else
    call('LREM', prefix .. state, 0, id)
  end
  if verb == 'retry' then
    call('HSET', key, 'msg', call('HGET', key, 'msg') .. '\48\0', 'state', 'pending', 'pending_since', ARGV[4] .. '000000000')
    call('HDEL', key, 'gresil-lost')
    call('LPUSH', prefix .. 'pending', id)
    return 1
  end
  local unique = call('HGET', key, 'unique_key') -- of a task of another client
  if unique and unique ~= '' and call('GET', unique) == id then
    call('DEL', unique)
  end
  call('DEL', key)
  return 1
end

-- Holds a queue for a number of milliseconds, unless it is paused or held for longer. Its expiry ends the hold, even if all processes have
-- died. Any other value of the key is the pause of an operator, by Pause or by a tool of asynq.
local function hold()
  local key = KEYS[1] .. 'paused'
  local by = call('GET', key)
  if by and (by ~= heldBy or call('PTTL', key) >= tonumber(ARGV[2])) then
    return 0
  end
  call('SET', key, heldBy, 'PX', ARGV[2])
  return 1
end

local operations = {look = look, control = control, hold = hold}
return operations[ARGV[1]]()
