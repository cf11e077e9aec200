-- entry returns the first one of the entries lo to len of a sliding window or log, which are at a place of a text, whose time (of is 0)
-- or sum (of is 8) is above a number; len + 1 if there is none.
local function entry(text, from, lo, len, of, above)
  local hi = len + 1
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if struct.unpack('<d', text, from + 16 * mid - 16 + of) > above then
      hi = mid
    else
      lo = mid + 1
    end
  end
  return lo
end
