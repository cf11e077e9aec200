-- A token bucket: see bucket.
-- READ
local debt_, moved_, back_ = 0, 0, 0
if size_ > 0 and known then
  if size_ == 8 then
    debt_ = unpack('<d', value, pos_)
  elseif size_ == 24 then
    debt_, moved_, back_ = unpack('<ddd', value, pos_)
  else
    known = false
  end
  local units = (now - now % C - (at - at % C)) / C * A
  local whole = max(0, debt_ + moved_ - units)
  debt_ = max(0, debt_ - units)
  moved_ = whole - debt_
end
local whole_ = now - now % C
local first_ = debt_ + (cost - N) * B
first_ = first_ > 0 and whole_ + ceil(first_ / A) * C or now
-- CHARGE
debt_ = debt_ + cost * B
receipt_ = debt_ + moved_
-- LOOK
local n_ = floor(max(0, N * B - debt_) / B)
local more_, full_, over_ = debt_ + (n_ + 1 - N) * B, debt_, now
more_ = n_ < N and more_ > 0 and whole_ + ceil(more_ / A) * C or now
full_ = full_ > 0 and whole_ + ceil(full_ / A) * C or now
over_ = moved_ > 0 and whole_ + ceil((debt_ + moved_) / A) * C or full_
-- STATE
local state_ = moved_ > 0 and pack('<ddd', debt_, moved_, back_) or pack('<d', debt_)
