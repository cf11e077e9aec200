-- Reads the holds and releases that are not over.
--
-- KEYS[1]  the set of hold.lua
-- ARGV[1]  the time, or '' for that of the server
--
-- Reply: the time, and each name with its end.
return {now, call('ZRANGE', KEYS[1], format('(%d', now), '+inf', 'BYSCORE', 'WITHSCORES')}
