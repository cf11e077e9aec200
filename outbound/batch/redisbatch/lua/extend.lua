-- Lets a lease end later.
--
-- ARGV[2]  the ID of the batch
-- ARGV[3]  the number of leases that it had
-- ARGV[4]  the time of the lease from now
-- ARGV[5]  1 if its call has not begun
--
-- Reply: whether it is still leased.
local b = call('HMGET', base .. 'b:' .. ARGV[2], 'o', 'd', 'l')
if b[2] ~= ARGV[3] or b[3] == '0' then
  return {0}
end
relax()
call('HSET', base .. 'b:' .. ARGV[2], 'l', ARGV[5] == '1' and 2 or 1)
call('ZADD', base .. 't:' .. b[1], int(now + ARGV[4]), ARGV[2])
place(b[1])
return {1}
