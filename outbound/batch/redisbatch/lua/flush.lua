-- Marks the records of groups as due.
--
-- ARGV[2]    "=" for the options that follow; "age" for a slice of the groups that are not due, the oldest
--            first, which is the order of their turns; or the option after which a slice of all groups
--            begins, with "(" before it, or "-" for the first slice
-- ARGV[3..]  options
--
-- Reply: the last option of a whole slice: there can be more groups.
relax()
local options, more = {}, {}
if ARGV[2] == '=' then
  for i = 3, #ARGV do
    options[#options + 1] = ARGV[i]
  end
elseif ARGV[2] == 'age' then
  options = call('ZRANGE', ages, 0, slice - 1)
else
  options = call('ZRANGE', all, ARGV[2], '+', 'BYLEX', 'LIMIT', 0, slice)
end
if ARGV[2] ~= '=' and #options == slice then
  more = {options[slice]}
end
for _, opt in ipairs(options) do
  if call('ZSCORE', all, opt) then
    mark(opt)
    place(opt)
  end
end
return more
