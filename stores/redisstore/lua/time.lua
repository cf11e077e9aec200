-- The first part of all scripts: now is the time in µs since the beginning of 2020, ARGV[1] or, if that
-- is '', the time of the server. A is filled by the scripts that keep accounts.
local floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
local format, sub, match, gmatch, concat = string.format, string.sub, string.match, string.gmatch, table.concat
local call, pcall, tonumber, KEYS, ARGV = redis.call, redis.pcall, tonumber, KEYS, ARGV
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = (t[1] - 1577836800) * 1000000 + t[2]
end
local A
