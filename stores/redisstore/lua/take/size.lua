-- size_ is the number of bytes of the state, and pos_ its place. The last state is the rest of the value, the others have their size
-- before them. size_ is -1 if that is cut off.
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
