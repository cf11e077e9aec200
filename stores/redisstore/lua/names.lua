-- The names that the general scripts use, after now. A is filled by those that keep accounts.
local floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
local format, sub, match, gmatch, concat = string.format, string.sub, string.match, string.gmatch, table.concat
local call, pcall, tonumber, KEYS, ARGV = redis.call, redis.pcall, tonumber, KEYS, ARGV
local A
