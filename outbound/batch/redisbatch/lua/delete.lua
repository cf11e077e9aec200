-- Deletes the records of a group that are not leased, its pause and its keys.
--
-- ARGV[2]  its option
--
-- Reply: how many records it were.
local opt = ARGV[2]
local g, p, f, t = base .. 'g:' .. opt, base .. 'p:' .. opt, base .. 'f:' .. opt, base .. 't:' .. opt
if not call('ZSCORE', all, opt) then
  return {0}
end
relax()
local pending, failed = call('LLEN', p), call('LLEN', f)
local waited = 0
local stay, names = {}, {} -- IDs of records that are leased
local batches = call('ZRANGE', t, 0, -1, 'WITHSCORES')
for n = 1, #batches, 2 do
  local id, till = batches[n], tonumber(batches[n + 1])
  local count = call('LLEN', base .. 'l:' .. id)
  local leased = call('HGET', base .. 'b:' .. id, 'l') ~= '0'
  if leased and till > now then
    for _, entry in ipairs(call('LRANGE', base .. 'l:' .. id, 0, -1)) do
      local _, _, name = parts(entry)
      stay[name], names[#names + 1] = true, name
    end
  else
    waited = waited + count
    call('HINCRBY', g, leased and 'flight' or 'retry', 0 - count)
    call('UNLINK', base .. 'b:' .. id, base .. 'l:' .. id)
    call('ZREM', t, id)
  end
end

local addresses = call('HGETALL', base .. 'w:' .. opt)
for n = 1, #addresses, 2 do
  if not stay[addresses[n]] then
    answer(addresses[n + 1], 'D', '')
  end
end

for _, kind in ipairs({'v:', 'i:', 'w:'}) do
  local key, keep = base .. kind .. opt, {}
  for n, value in ipairs(values(key, names)) do
    if value then
      keep[#keep + 1] = names[n]
      keep[#keep + 1] = value
    end
  end
  call('UNLINK', key)
  each(keep, 2, function(...) call('HSET', key, ...) end)
end
call('UNLINK', p, f, base .. 'k:' .. opt)
call('HDEL', g, 'head', 'mark', 'bytes', 'paused')
call('HINCRBY', method, 'n', 0 - pending - waited)
place(opt)
return {pending + failed + waited}
