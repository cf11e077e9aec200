-- The end of takebucket and takewindow. If there is something to write, it has a form, the numbers x, y and z, the time when it is over,
-- and a later one to which the expiry is set, so that later takes can keep it. behind: the clock went back.
if form then
  local keep = over <= expires and not behind
  expires = keep and expires or later
  local text = limit .. struct.pack(form, now, expires, x, y, z)
  if keep then
    redis.call('SET', key, text, 'KEEPTTL')
  else
    redis.call('SET', key, text, 'PX', math.ceil((later - now) / 1000) + 1)
  end
end
