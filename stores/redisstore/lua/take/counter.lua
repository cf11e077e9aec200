-- A sliding counter: see counter, and countermath.
-- READ
local start_, before_, used_ = now, 0, 0
if size_ > 0 and known then
  if size_ == 24 then
    start_, before_, used_ = unpack('<ddd', value, pos_)
    known = start_ <= now
    local passed = now - start_
    if passed >= A then
      before_, used_ = passed < 2 * A and used_ or 0, 0
      start_ = before_ > 0 and now - passed % A or now
    end
  else
    known = false
  end
end
local first_ = used_ + cost + before_ <= N and now or earliest(N, A, cost, now, start_, before_, used_)
-- CHARGE
used_ = used_ + cost
receipt_ = now
-- LOOK
local n_ = max(0, N - (before_ > 0 and weigh(A, now, start_, before_, used_) or used_))
local more_ = n_ < N and earliest(N, A, n_ + 1, now, start_, before_, used_) or now
local full_ = used_ > 0 and start_ + 2 * A or before_ > 0 and start_ + A or now
local over_ = full_
-- STATE
local state_ = pack('<ddd', start_, before_, used_)
