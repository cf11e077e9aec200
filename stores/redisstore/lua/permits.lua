-- Takes, renews and returns the permits of bulkheads. All keys have one slot.
--
-- KEYS     three for each operation:
--          a sorted set of leases by their ends, in µs
--          a sorted set of waiters by their arrival, in µs
--          a hash: the id of a waiter, with the end of its registration, its permits and its channel; the id
--          of a lease of several permits, with their number; '+', with the permits above one of these leases
-- ARGV[1]  the time, or '' for that of the server
-- then for each operation:
--   take, wait (take, or register as a waiter), keep (renew) or end; the id; the permits; the limit; how long
--   a lease lasts, and a registration, in µs; the channel of the sender, or '' if it receives nothing
--
-- Reply: the time, and for each operation: 1 if the id has the permits, otherwise 0; and the time until the
-- first lease ends, in µs, if the id is the first waiter, otherwise 0.
--
-- A waiter has its turn when the permits are free for it and for all before it; it then receives its id.
-- Waiters whose process has ended have no receiver, and are dropped. The keys expire with the last lease.
local mostWaiters = 65536
local reply, leases, waiters, about = {now}, nil, nil, nil
local function release(id)
  if call('ZREM', leases, id) == 1 then
    local weight = call('HGET', about, id)
    if weight then
      call('HDEL', about, id)
      call('HINCRBY', about, '+', 1 - (tonumber(weight) or 1)) -- 1 if it waited, and the key of waiters has expired
    end
  end
end
local function leave(id)
  if call('ZREM', waiters, id) == 1 then
    call('HDEL', about, id)
  end
end
local function used()
  for _, id in ipairs(call('ZRANGE', leases, '-inf', format('%d', now), 'BYSCORE')) do
    release(id)
  end
  local n = call('ZCARD', leases)
  if n > 0 then
    return n + (call('HGET', about, '+') or 0)
  end
  -- The key of leases can have expired with heavy ones.
  if call('HDEL', about, '+') == 1 and call('ZCARD', waiters) == 0 then
    call('DEL', about)
  end
  return 0
end
-- wake sends their turn to the waiters before me, or to all. It returns the free permits that they leave,
-- and how many they are.
local function wake(free, me)
  local n = 0
  while free > 0 do
    local id = call('ZRANGE', waiters, n, n)[1]
    if not id or id == me then
      break
    end
    local till, weight, channel = match(call('HGET', about, id) or '', '^(%d+) (%d+) (.*)$')
    if not till or tonumber(till) <= now then
      leave(id)
    elseif channel ~= '' and call('PUBLISH', channel, tonumber(weight) <= free and id or '') == 0 then
      leave(id)
    else
      free, n = free - weight, n + 1
    end
  end
  return free, n
end
local function hold(id, weight, lease)
  local new = call('ZADD', leases, format('%d', now + lease), id)
  local last = call('ZRANGE', leases, -1, -1, 'WITHSCORES')[2]
  local left = ceil((last - now) / 1000)
  call('PEXPIRE', leases, left)
  if weight > 1 then
    if call('HSET', about, id, format('%d', weight)) + new > 0 then
      call('HINCRBY', about, '+', weight - 1)
    end
    call('PEXPIRE', about, max(left, 60000))
  end
end
local function take(what, id, weight, limit, lease, life, channel)
  local free = limit - used()
  if what == 'wait' and call('ZSCORE', leases, id) then -- the reply was lost
    hold(id, weight, lease)
    return 1, 0
  end
  local left, before = free, 0
  local queued = call('ZCARD', waiters)
  if queued > 0 then
    left, before = wake(free, id)
  end
  if left >= weight then
    if queued > 0 then
      leave(id)
    end
    hold(id, weight, lease)
    if queued > 0 and before == 0 then
      wake(free - weight)
    end
    return 1, 0
  end
  if what == 'take' or queued >= mostWaiters then
    return 0, 0
  end
  call('ZADD', waiters, 'NX', format('%d', now), id)
  call('HSET', about, id, format('%d %d %s', now + life, weight, channel))
  local first = call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
  call('PEXPIRE', waiters, 60000)
  call('PEXPIRE', about, max(60000, call('PTTL', leases)))
  if first and call('ZRANGE', waiters, 0, 0)[1] == id then
    return 0, max(first - now, 1)
  end
  return 0, 0
end
for i = 1, #KEYS / 3 do
  leases, waiters, about = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local a = 7 * i - 5
  local what, id, weight, limit, lease = ARGV[a], ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4])
  local has, first = 0, 0
  if what == 'end' then
    release(id)
    leave(id)
    if call('ZCARD', waiters) > 0 then
      wake(limit - used())
    end
  elseif what == 'keep' then
    if call('ZSCORE', leases, id) or used() + weight <= limit then
      has = 1
      hold(id, weight, lease)
    end
  else
    has, first = take(what, id, weight, limit, lease, tonumber(ARGV[a + 5]), ARGV[a + 6])
  end
  reply[#reply + 1] = has
  reply[#reply + 1] = first
end
return reply
