-- What processes share of a vendor: places in flight, holds with their ramps, and slots.
--
-- KEYS[1]  the value of the vendor
-- KEYS[2…] those of keys of limits
-- ARGV[1]  the time, or '' for that of the server
-- ARGV[2]  pass, end, hold, resume, renew or close; then as below
--
-- A value is 'g1' and a map: at, of the last write; gen, of the last hold, and prev, of the one before; till and over, the ends of
-- the hold and of its ramp; room, how many turns of the ramp can be out (0: no ramp); out, these, as id and end, the oldest first;
-- tail, the end of the usage, and pace, that of the admissions of late calls. That of the vendor has more: seq, the last id; places, by id with the ends of their leases; freed, when
-- the last one was; procs, when each process was seen; wait, what each process that was refused a place is: its name, since when, and
-- last when; lim, most, won, soon and resumed, of the number of places. All times are in µs.
local probe, lease, seen, noted = 10000000, 10000000, 10000000, 200000
local S, dirty = {}, {}

local function moved(s, d)
  s.at, s.till, s.over, s.tail, s.pace = now, s.till - d, s.over - d, s.tail - d, s.pace - d
  for k = 2, #s.out, 2 do s.out[k] = s.out[k] - d end
  if s.places then
    s.freed, s.resumed = s.freed - d, s.resumed - d
    for id, t in pairs(s.places) do s.places[id] = t - d end
    for p, t in pairs(s.procs) do s.procs[p] = t - d end
    for _, w in ipairs(s.wait) do w[2], w[3] = w[2] - d, w[3] - d end
  end
end

-- read returns an error for the value of another program.
local function read(i)
  local raw, s = call('GET', KEYS[i])
  if not raw then
    s = {at = now, gen = 0, prev = 0, till = 0, over = 0, room = 0, tail = 0, pace = 0, out = {}}
    if i == 1 then
      s.seq, s.places, s.freed, s.procs, s.wait = 0, {}, now, {}, {}
      s.lim, s.most, s.won, s.soon, s.resumed = 0, 0, 0, 0, 0
    end
  elseif sub(raw, 1, 2) ~= 'g1' then
    return {err = 'WRONGTYPE not the value of a gate'}
  else
    s = cmsgpack.unpack(sub(raw, 3))
    if now < s.at then -- the clock went back
      moved(s, s.at - now)
      dirty[i] = true
    end
  end
  S[i] = s
end
for i = 1, #KEYS do
  local err = read(i)
  if err then return err end
end
local V = S[1]

-- tidy gives up turns and places that are out for too long, and ends ramps.
local used, procs = 0, 0
for i, s in ipairs(S) do
  if s.room > 0 and now >= s.till then
    while s.out[1] and s.out[2] <= now do
      if V.places[s.out[1]] then V.places[s.out[1]], V.freed = nil, now end
      table.remove(s.out, 1)
      table.remove(s.out, 1)
      if s.room == 1 then s.over = now + probe end
      dirty[i], dirty[1] = true, true
    end
    if s.room >= 64 or now >= s.over and (s.room > 1 or not s.out[1]) then
      s.room, s.out = 0, {}
    end
  end
end
for id, t in pairs(V.places) do
  if t <= now then V.places[id] = nil else used = used + 1 end
end
for p, t in pairs(V.procs) do
  if t + seen <= now then V.procs[p] = nil else procs = procs + 1 end
end
for k = #V.wait, 1, -1 do
  if V.wait[k][3] + noted <= now then table.remove(V.wait, k) end
end

local function saw(p)
  if not V.procs[p] then procs = procs + 1 end
  if (V.procs[p] or 0) + 1000000 <= now then
    V.procs[p], dirty[1] = now, true
  end
end

local function poll(since) return min(max(floor((now - since) / 2), 50000), 500000) end

local function find(list, id)
  for k = 1, #list, 2 do
    if list[k] == id then return k end
  end
end

local op = {}

-- pass: the name of the process; how many calls; InFlight; the round trip; the farthest slot; pass, late (calls take their
-- slots when they ask again), again or reserve; the id of the
-- call that asks again, or 0; then for each of KEYS: the charge of its limit, how far ahead of the end of the usage that can be, and
-- the generation that the call has seen, if it asks again.
--
-- Reply: places in use, and in force; processes; when something is free, or 0; what has refused (0: nothing, -1: a place or turn, or
-- the number of a key); 1 if that is a hold; its generation; how many calls pass; then for each its id, its slot, 1 if it has a turn, 1
-- if it is a probe, and the generation of each of KEYS, and 1 if its slot was taken.
function op.pass()
  local name, n, inflight, trip, mode, own = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[8], tonumber(ARGV[9])
  local late = mode == 'late'
  if late then mode = 'pass' end
  local farthest, again, why, held, gen, passed, out = now + tonumber(ARGV[7]), 0, 0, 0, 0, 0, {}
  local function arg(i, k) return tonumber(ARGV[7 + 3 * i + k]) end
  if inflight ~= V.most then
    if V.lim == V.most or V.lim > inflight then V.lim = inflight end
    V.most = inflight
  end

  local function shut(i, s)
    if now < s.till then
      again, why, held, gen = s.till - now, i, 1, s.gen
    elseif mode == 'again' and s.gen ~= arg(i, 2) then
      again, why = 1, i
    elseif s.room > 0 and (mode == 'again' and not find(s.out, own) or mode == 'pass' and #s.out >= 2 * s.room) then
      again, why = min(poll((s.out[#s.out] or now) - probe), max((s.out[2] or now) - now, 1000)), -1
    end
    return why ~= 0
  end

  local function full()
    if mode == 'again' then
      if inflight == 0 or V.places[own] then return false end
      again = 1
    else
      local mine, ahead, first = nil, 0, now + 500000
      for _, w in ipairs(V.wait) do
        if w[1] == name then mine = w end
      end
      for _, w in ipairs(V.wait) do
        if w ~= mine and (not mine or w[2] < mine[2]) then ahead = ahead + 1 end
      end
      if used + ahead < V.lim then
        return false
      end
      if mine then
        mine[3] = now
      elseif #V.wait < 64 then
        V.wait[#V.wait + 1] = {name, now, now}
      end
      for _, t in pairs(V.places) do first = min(first, t) end
      again, dirty[1] = max(1000, min(poll(V.freed), first - now)), true
    end
    why = -1
    return true
  end

  -- pace returns when a late call can pass.
  local function pace()
    local at, last = now, 0
    for i, s in ipairs(S) do
      local charge = arg(i, 0)
      local t = max(s.pace, s.tail - min(charge, 500000)) - arg(i, 1)
      if charge > 0 and t > at then at, last = t, i end
    end
    if at > now + 5000 then
      again, why = at - now, last
      return nil
    end
    return now
  end

  local function slot()
    local at, last = now, 0
    for i, s in ipairs(S) do
      if arg(i, 0) > 0 then at = max(at, now + trip) end
    end
    for i, s in ipairs(S) do
      if mode == 'reserve' then at = max(at, s.till) end
      if arg(i, 0) > 0 and s.tail - arg(i, 1) > at then
        at, last = s.tail - arg(i, 1), i
      end
    end
    if mode ~= 'again' and at > farthest then
      again, why = at - now, last
      return nil
    end
    return at
  end

  for _ = 1, n do
    if mode ~= 'reserve' then
      for i, s in ipairs(S) do
        if shut(i, s) then break end
      end
      if why ~= 0 or inflight > 0 and full() then break end
    end
    local at
    if late then at = pace() else at = slot() end
    if not at then break end
    local id, turn, first = own, 0, 0
    if mode ~= 'again' then
      V.seq = max(V.seq + 1, now)
      id = V.seq
    end
    local r = #out
    out[r + 1], out[r + 2] = id, at - now
    for i, s in ipairs(S) do
      local took = 0
      if late and arg(i, 0) > 0 then
        s.pace, dirty[i] = max(s.pace, now - 12500) + arg(i, 0), true
      elseif arg(i, 0) > 0 and (mode ~= 'reserve' or at - max(now + trip, s.till, s.tail - arg(i, 1)) < 12500) then
        s.tail, took, dirty[i] = max(s.tail, at) + arg(i, 0), 1, true
      end
      if s.room > 0 and mode ~= 'reserve' then
        turn = 1
        if mode == 'pass' then
          if s.room == 1 then first = 1 end
          s.out[#s.out + 1], s.out[#s.out + 2] = id, now + probe
          dirty[i], dirty[1] = true, true -- the id is used
        end
      end
      out[r + 3 + 2 * i], out[r + 4 + 2 * i] = s.gen, took
    end
    out[r + 3], out[r + 4] = turn, first
    if inflight > 0 and mode ~= 'reserve' then
      if mode == 'pass' then
        used = used + 1
        for k = #V.wait, 1, -1 do
          if V.wait[k][1] == name then table.remove(V.wait, k) end
        end
      end
      V.places[id], dirty[1] = now + lease, true
    end
    passed = passed + 1
  end
  if passed > 0 then saw(name) end
  return {used, V.lim, procs, again, why, held, gen, passed, unpack(out)}
end

-- grow counts a success.
local function grow()
  local rounds, step = 16, 1
  if V.soon == 1 then rounds, step = 1, max(1, floor(V.lim / 16)) end
  V.won = V.won + 1
  if V.won >= rounds * V.lim and V.lim < V.most then
    V.lim, V.won = min(V.most, V.lim + step), 0
  end
end

-- end: for each attempt its id, 1 to end its turns, 1 to end its place, 1 if it has succeeded, how many keys it has, and of each its
-- number and generation.
op['end'] = function()
  local k = 3
  while ARGV[k] do
    local id, turn, place, ok, n, fresh = tonumber(ARGV[k]), ARGV[k + 1] == '1', ARGV[k + 2] == '1', ARGV[k + 3] == '1', tonumber(ARGV[k + 4]), true
    k = k + 5
    for _ = 1, n do
      local i = tonumber(ARGV[k])
      local s = S[i]
      fresh = fresh and s.gen == tonumber(ARGV[k + 1])
      local at = turn and find(s.out, id)
      if at then
        table.remove(s.out, at)
        table.remove(s.out, at)
        if ok then s.room = s.room + 1 end
        dirty[i] = true
      end
      k = k + 2
    end
    if place and V.places[id] then
      V.places[id], V.freed, dirty[1] = nil, now, true
      used = used - 1
      if ok and fresh then grow() end
    end
  end
  return {used, V.lim, procs}
end

-- hold: for each the number of its key, how long, the generation of the attempt that was refused (-1: it
-- is not known), and 1 to halve the places.
-- Reply: for each the generation of its key, and how long it is held.
function op.hold()
  local reply = {}
  for k = 3, #ARGV, 4 do
    local i, gen = tonumber(ARGV[k]), tonumber(ARGV[k + 2])
    local s, till = S[i], now + tonumber(ARGV[k + 1])
    local force = now < s.till
    if gen < 0 or s.gen == 0 or gen == s.gen or force and gen == s.prev then -- otherwise it is about a hold that is over
      if not force then
        s.prev, s.gen, s.till, s.room, s.out, dirty[i] = s.gen, max(s.gen + 1, now), till, 1, {}, true
        if ARGV[k + 3] == '1' and now > V.resumed then
          V.soon = (now - V.resumed >= probe or used <= V.lim / 2) and 1 or 0
          if V.lim > 0 then V.lim, V.won = max(1, floor(V.lim / 2)), 0 end
          V.resumed, dirty[1] = till, true
        end
      end
      if till >= s.till then
        s.till, s.over, dirty[i] = till, till + probe, true
      end
    end
    reply[#reply + 1], reply[#reply + 2] = s.gen, max(0, s.till - now)
  end
  return reply
end

-- resume ends the holds of all of KEYS but the first, and of that one too if ARGV[3] is 1.
function op.resume()
  for i = ARGV[3] == '1' and 1 or 2, #S do
    local s = S[i]
    if now < s.till then
      s.till, s.over, dirty[i] = now, now + probe, true
      V.resumed, dirty[1] = now, true
    end
  end
  return {0}
end

-- renew: the name of the process, and the ids of its places.
function op.renew()
  saw(ARGV[3])
  for k = 4, #ARGV do
    local id = tonumber(ARGV[k])
    if V.places[id] then V.places[id], dirty[1] = now + lease, true end
  end
  return {used, V.lim, procs}
end

-- close: the name of the process.
function op.close()
  V.procs[ARGV[3]], dirty[1] = nil, true
  return {0}
end

local reply = op[ARGV[2]]()
for i in pairs(dirty) do
  local s = S[i]
  local last = max(s.till, s.tail, s.pace, s.room > 0 and s.over or 0)
  for k = 2, #s.out, 2 do last = max(last, s.out[k]) end
  if i == 1 then
    for _, t in pairs(s.places) do last = max(last, t) end
    for _, t in pairs(s.procs) do last = max(last, t + seen) end
    for _, w in ipairs(s.wait) do last = max(last, w[3] + noted) end
  end
  s.at = now
  if last > now then
    call('SET', KEYS[i], 'g1' .. cmsgpack.pack(s), 'PX', ceil((last - now) / 1000))
  else
    call('DEL', KEYS[i])
  end
end
return reply
