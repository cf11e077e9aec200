-- Pauses a group, or ends that.
--
-- ARGV[2]  its option
-- ARGV[3]  1 to pause it
-- ARGV[4]  how many groups there may be
--
-- Reply: whether it was done; otherwise there would be too many groups.
local opt, most = ARGV[2], tonumber(ARGV[4])
local known = call('ZSCORE', all, opt)
if ARGV[3] ~= '1' then
  if known then
    call('HDEL', base .. 'g:' .. opt, 'paused')
    place(opt)
  end
  return {1}
end
if not known and call('ZCARD', all) >= most then
  return {0}
end
call('ZADD', all, 0, opt)
call('HSET', base .. 'g:' .. opt, 'paused', 1)
place(opt)
return {1}
