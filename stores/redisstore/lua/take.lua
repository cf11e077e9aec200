-- Takes under the limits of the value, in a text that is made for them: take.go puts it together from this frame and the parts in take, one
-- for each limit. In a part, N, A, B and C are the numbers of its limit, and a name that ends in _ is its own. KEYS, ARGV, the value and the
-- reply are those of account: see head. A reply of -2 leaves the key to account: the value is under other limits, the clock went back,
-- or, except in a bucket, something is reserved ahead.
--
-- A part has these sections:
--   READ    the state at now from the size_ bytes of value at pos_, or of a new key if size_ is 0; and first_, the first time at which the
--           cost can be taken. known is false if only account can read it
--   CHARGE  charges the cost, and says what the receipt_ is
--   LOOK    the permits n_ that are left, the times more_ of one more and full_ of all, and over_, when the state can be dropped
--   STATE   the state as text
local call, pcall, pack, unpack, sub = redis.call, redis.pcall, struct.pack, struct.unpack, string.sub
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
HELP
local limit, reply = 'HEAD', {pack('<d', now)}
for i = 1, #KEYS do
  local key, _, cost = KEYS[i], unpack('<dd', ARGV[i + 2] or ARGV[3])
  local value, known, expires, pos, at = pcall('GET', key), true, 0
  if value then
    local name
    if #value > #limit + 16 then
      name, expires, at, pos = unpack('<cSIZEdd', value)
    end
    known = name == limit and at <= now
  end
  READ
  if known then
    local granted, first = -1, max(nowFIRSTS)
    if first == now then
      granted = cost
      CHARGE
    end
    LOOK
    if granted > 0 then
      local last = max(nowOVERS)
      STATE
      local text = pack('<d', now)STATES
      if expires == 0 or last > expires then
        expires = expires > 0 and last + ceil((last - now) / 4) + min(1000000, last - now) or last
        call('SET', key, limit .. pack('<d', expires) .. text, 'PX', ceil((expires - now) / 1000) + 1)
      elseif #limit + 8 + #text ~= #value then
        call('SET', key, limit .. pack('<d', expires) .. text, 'KEEPTTL')
      else
        call('SETRANGE', key, 'PLACE', text)
      end
    end
    reply[i + 1] = pack('<ddFORM', granted, firstSTANDS)
  else
    reply[i + 1] = pack('<d', -2) .. string.rep('\0', REST)
  end
end
return table.concat(reply)
