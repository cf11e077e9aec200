-- A fixed window, or an aligned one: see window. B is false for the former.
-- READ
local used_, start_ = 0, nil
if size_ > 0 and known then
  if size_ == 16 then
    used_, start_ = unpack('<dd', value, pos_)
    known = start_ <= now and used_ <= N
    if now - start_ >= A then
      used_, start_ = 0, nil
    end
  else
    known = false
  end
end
start_ = start_ or B and now - (now + B) % A or now
local first_ = used_ + cost > N and start_ + A or now
-- CHARGE
used_ = used_ + cost
receipt_ = start_
-- LOOK
local n_, full_ = N - used_, used_ > 0 and start_ + A or now
local more_, over_ = full_, full_
-- STATE
local state_ = pack('<dd', used_, start_)
