-- The state of a method.
--
-- ARGV[2]  the age at which records are due
--
-- Reply: whether a group is due; how long until the next one, or -1; the number of records.
local after = tonumber(ARGV[2])
relax()
promote(after)
return {state(after)}
