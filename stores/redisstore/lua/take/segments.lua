-- A sliding window or log: see segments, and entry. The entries are at from_ in the value, len_ of them.
-- READ
local base_, total_, from_, len_, last_ = 0, 0, 0, 0, nil
if size_ > 0 and known then
  base_, from_ = unpack('<d', value, pos_)
  len_, total_ = (size_ - 8) / 16, base_
  if len_ % 1 ~= 0 then
    known, len_ = false, 0
  elseif len_ > 0 then
    last_, total_ = unpack('<dd', value, pos_ + size_ - 16)
    known = last_ <= now and total_ <= 4503599627370496
    if unpack('<d', value, from_) <= now - A then
      local over = entry(value, from_, 1, len_, 0, now - A) - 1
      base_ = unpack('<d', value, from_ + 16 * over - 8)
      from_, len_ = from_ + 16 * over, len_ - over
    end
  end
end
local first_ = now
if total_ - base_ + cost > N then
  first_ = max(now, unpack('<d', value, from_ + 16 * entry(value, from_, 1, len_, 8, total_ + cost - N - 1) - 16) + A)
end
-- CHARGE
receipt_ = now - now % B
if last_ and last_ >= receipt_ then
  receipt_, len_ = last_, len_ - 1
end
last_, total_ = receipt_, total_ + cost
-- LOOK
local n_ = max(0, N - (total_ - base_))
local more_, full_ = now, last_ and max(now, last_ + A) or now
if n_ < N then
  local at = 1
  if len_ > 0 and unpack('<d', value, from_ + 8) <= total_ + n_ - N then
    at = entry(value, from_, 1, len_, 8, total_ + n_ - N)
  end
  more_ = max(now, (at > len_ and last_ or unpack('<d', value, from_ + 16 * at - 16)) + A)
end
local over_ = full_
-- STATE
local state_ = pack('<d', base_) .. (len_ > 0 and sub(value, from_, from_ + 16 * len_ - 1) or '') .. pack('<dd', last_, total_)
