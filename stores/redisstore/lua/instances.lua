-- The beat of an instance: it is alive, and how many are.
--
-- KEYS[1]  a sorted set of instances by the time of their last beat, in µs
-- ARGV[1]  the time, or '' for that of the server
-- ARGV[2]  the name of the instance
-- ARGV[3]  how long it lives without another beat, in µs; 0 to leave
--
-- Reply: the time, and how many are alive.
--
-- Writes the beat, and drops those that are dead. The set goes when all have left, or after a day
-- without a beat: a server that is full and drops first what expires first keeps it longest.
local call = redis.call
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = (t[1] - 1577836800) * 1000000 + t[2]
end
local life = tonumber(ARGV[3])
if life == 0 then
  call('ZREM', KEYS[1], ARGV[2])
  return {now, call('ZCARD', KEYS[1])}
end
call('ZADD', KEYS[1], string.format('%d', now), ARGV[2])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%d', now - life))
call('PEXPIRE', KEYS[1], 86400000)
return {now, call('ZCARD', KEYS[1])}
