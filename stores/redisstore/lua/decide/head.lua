-- One operation on one key, under any limits. The text of the script is this file, then those
-- of the algorithms that are needed, then tail.lua.
--
-- KEYS[1]   the value of the key
-- ARGV[1]   the time, or '' for that of the server
-- ARGV[2]   0 take, 1 take at most, 2 reserve, 3 refund, 4 reset, 5 check, 6 drain
-- ARGV[3]   cost, in permits
-- ARGV[4]   how long a reservation may wait, in µs
-- ARGV[5]   the capacity of the limit
-- ARGV[6]   how many parts the limit has
-- ARGV[7]   how many specs follow: those of the parts, then others that are referred to
-- then      each spec: kind, permits, a, b, c (see the algorithms); its first letter is the algorithm
-- then      how many limits came before this one, the newest first, and for each: how
--           long ago it was replaced, in µs, and for each part the place of the spec that it
--           replaced, or 0
-- then      how many parts a refund is for, the time of the take, and for each: the place of
--           the spec, and what its charge returned
--
-- Reply: allowed, granted, limit, remaining, wait, retry after (-1: never), next after, full
-- after, which part decided (from 0), the time, and for each part that was charged: the place
-- of its spec, and what the charge returned; then, where there is more than one part, for each:
-- remaining, full after. All times are whole µs.
--
-- Writes only what was admitted, given back or forgotten, and a debt that goes over to
-- another kind of limit. When the clock went back, so does the state, once, also by a refusal and
-- by a look: it neither frees the key nor blocks it for longer. The value is 'KIND STATE' where
-- there is one kind, else 'END KIND STATE|' for each, where END is when it is over. It expires when
-- all are. A value that is none of these is an error.
--
-- An algorithm has these functions, where p is a spec and s is the state of its kind, new
-- where s.n is nil:
--   read(text), write(s)        what is read is moved back behind a clock that went back, and has s.back
--   earliest(p, s, cost)        the first time, now or later, at which cost can be taken
--   fits(p, s, at, cost)        whether a charge can be kept that lies ahead
--   charge(p, s, own, at, cost) charges at a time, which is own, as earliest returned it, or later
--   refund(p, s, at, receipt, cost) gives back what the charge took that time has not; whether it did
--   available(p, s), full(p, s), taken(p, s) as of now
--   over(p, s)                  when nothing is owed any more, if that is not full(p, s)
--   began(p, s)                 when the window began that a limit holds to the end of
local floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
local format, sub, match, call = string.format, string.sub, string.match, redis.call
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = (t[1] - 1577836800) * 1000000 + t[2]
end
local A = {}
