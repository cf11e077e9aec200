-- Holds keys until the later of two times, or releases them, and publishes what has changed.
--
-- KEYS[1]  a sorted set of holds by their ends, in µs; a release has "-" before the name, and the end
--          up to which holds are released. Its name is that of the channel too
-- ARGV[1]  the time, or '' for that of the server
-- ARGV[2]  the name of the sender
-- ARGV[3]  how many holds there may be
-- then for each key:
--   hold or release; how long the hold lasts from now on, in µs; the name of the key
--
-- Reply: the time, and for each key when its hold or release ends.
--
-- The set expires with its last hold.
local set, reply = KEYS[1], {now}
local function publish(till, id)
  call('PUBLISH', set, format('%d %d ', now, till) .. ARGV[2] .. ' ' .. id)
end
call('ZREMRANGEBYSCORE', set, '-inf', format('%d', now))
for i = 4, #ARGV, 3 do
  local till, id = now + tonumber(ARGV[i + 1]), ARGV[i + 2]
  local old = tonumber(call('ZSCORE', set, id) or '')
  if ARGV[i] == 'release' then
    till = till + 1000000 -- what was told can be a little later than what the sender knows
    if not old or old <= till then
      call('ZREM', set, id)
      call('ZADD', set, format('%d', till), '-' .. id)
      publish(till, '-' .. id)
    end
  elseif old and old >= till then
    till = old
  else
    call('ZADD', set, format('%d', till), id)
    call('ZREM', set, '-' .. id)
    publish(till, id)
  end
  reply[#reply + 1] = till
end
call('ZREMRANGEBYRANK', set, 0, -1 - ARGV[3])
local last = call('ZRANGE', set, -1, -1, 'WITHSCORES')[2]
if last then
  call('PEXPIRE', set, ceil((last - now) / 1000))
end
return reply
