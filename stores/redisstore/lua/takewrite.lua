-- The end of takebucket and takewindow. If there is something to write, text is the time and the state, over is when the state can be
-- dropped, and later the time to which the expiry is set, so that later takes can keep it. Most takes write over the text of the
-- one before, which keeps the expiry and costs the server least. expires is 0 if they cannot: the key is new, the clock went back, or
-- the text is shorter.
if text then
  if expires > 0 and over <= expires then
    call('SETRANGE', key, place, text)
  else
    call('SET', key, limit .. pack('<d', later) .. text, 'PX', math.ceil((later - now) / 1000) + 1)
  end
end
