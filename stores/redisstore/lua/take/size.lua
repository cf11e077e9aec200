-- The size_ of a state, and its place pos_: of the last one all that is left, otherwise a number before it.
-- READ
local size_, pos_, receipt_ = 0, pos, 0
if value and known then
  if LAST then
    size_ = #value - pos + 1
  elseif #value >= pos + 7 then
    size_, pos_ = unpack('<d', value, pos)
  else
    size_ = -1
  end
  pos = pos_ + size_
  known = pos <= #value + 1 and (size_ == 0 or size_ >= 8)
end
