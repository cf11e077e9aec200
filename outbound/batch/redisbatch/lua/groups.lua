-- The state of a slice of the groups.
--
-- ARGV[2]  the option after which the slice begins, with "(" before it, or "-" for the first
-- ARGV[3]  how many groups at most
--
-- Reply: the number of leases in about the last minute, and of each group: its option; how many records
-- are pending; keys; bytes; records in batches that are leased, and that wait; failed; dropped; 1 if it is
-- paused; 1 if it is due; the arrival of the oldest record, the last lease, or 0; the last error and its
-- time.
local reply, leases = {0}, call('HGETALL', base .. 'calls')
local slot = math.floor(now / 10000000)
for i = 1, #leases, 2 do
  if slot - leases[i] < 6 then
    reply[1] = reply[1] + leases[i + 1]
  end
end
for _, opt in ipairs(call('ZRANGE', all, ARGV[2], '+', 'BYLEX', 'LIMIT', 0, min(slice, tonumber(ARGV[3])))) do
  local g = call('HMGET', base .. 'g:' .. opt, 'bytes', 'flight', 'retry', 'dropped', 'paused', 'head', 'mark', 'call', 'err', 'errat')
  local function number(n)
    return tonumber(g[n] or 0)
  end
  local p = base .. 'p:' .. opt
  local pending = call('LLEN', p)
  local _, at = first(base .. 't:' .. opt)
  local due = pending > 0 and number(7) > number(6) or at and at <= now
  local arrival = pending > 0 and parts(call('LINDEX', p, 0)) or 0
  reply[#reply + 1] = {opt, pending, call('HLEN', base .. 'k:' .. opt), number(1), number(2), number(3), call('LLEN', base .. 'f:' .. opt),
    number(4), g[5] and 1 or 0, due and 1 or 0, arrival, number(8), g[9] or '', number(10)}
end
return reply
