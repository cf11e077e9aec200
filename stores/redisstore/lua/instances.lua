-- The beat of an instance: registers it as alive, and counts the living instances.
--
-- KEYS[1]  a sorted set of instances by the time of their last beat, in µs
-- ARGV[1]  the time, or '' for that of the server
-- ARGV[2]  the name of the instance
-- ARGV[3]  its life without another beat, in µs; 0 to leave
--
-- Reply: the time, how many are alive, and how many of them have a name before this one's.
--
-- Writes the beat, and drops dead instances, also an instance whose time is further ahead than a
-- life: the clock went back. The set is deleted when all instances have left, or after a year without
-- a beat: a full server with volatile-ttl evicts it last.
local life = tonumber(ARGV[3])
if life == 0 then
  call('ZREM', KEYS[1], ARGV[2])
  return {now, 0, 0}
end
call('ZADD', KEYS[1], format('%d', now), ARGV[2])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', format('(%d', now - life))
call('ZREMRANGEBYSCORE', KEYS[1], format('(%d', now + life), '+inf')
call('PEXPIRE', KEYS[1], 31536000000)
local names, rank = call('ZRANGE', KEYS[1], 0, -1), 0
for _, name in ipairs(names) do
  if name < ARGV[2] then
    rank = rank + 1
  end
end
return {now, #names, rank}
