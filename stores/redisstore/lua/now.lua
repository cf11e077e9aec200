-- now is the time in µs since the beginning of 2020, ARGV[1] or, if that is '', the time of the server.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = (t[1] - 1577836800) * 1000000 + t[2]
end
