-- The state of a vendor that processes share: places in flight, holds with their ramps, and slots.
--
-- KEYS[1]  the value of the vendor
-- KEYS[2…] those of keys of limits
-- ARGV[1]  the time, or '' for that of the server
-- ARGV[2]  pass, report or resume; then as below
--
-- A value is 'g2' and a map: at, the time of the last write; gen, the generation of the last hold, and prev, that of the hold before; till
-- and over, the ends of the hold and of its ramp; room, how many turns of the ramp there can be at once (0: no ramp); out, these turns, as
-- id and end, the oldest first; tail, the end of the usage; unit, the charge of one permit by which it was counted; last, the latest slot;
-- mark, the number of the slot that was given last; low, pairs: the least of what some slots have left, and the number of the last of these
-- (what a slot has left is how far ahead the end of the usage was when it was given, minus what was given back since);
-- spare, slots that were given back, as time, charge and number; pace, the end of the admissions of late calls; wants, until when
-- background calls are assumed to ask for slots; rush, until when interactive calls are assumed to wait for them, and rushing, their
-- process; owed, the same of a costly background call whose turn it is; past, how many interactive calls have passed since a background
-- call. The value of the vendor also has: seq, the last id; places, by id with the ends of their leases; freed, when the last place was
-- freed; procs, when each process was seen; wait, the processes that were refused a place: name, since when it waits, when it last asked,
-- whether for background calls, and for how many; lim, the number of places; most, lim when it is not halved; asked, the last InFlight
-- above 0; won, the successes since lim has changed; soon, 1 if lim grows fast; resumed, the end of the last hold that halved lim, or the
-- time of a resume; eased, when halving lim alone is possible again; far, the end of the farthest hold of any key; ended, the generation up
-- to which all holds were resumed. All times are in µs.
-- noted is longer than the longest poll: a process that waits for a place is not forgotten between two of them. A call that waits is
-- assumed to ask within kept after its slot, and one for which others wait within soon. After share interactive calls, it is the turn of a
-- background call, whose slot can then be farther ahead by early; for one that costs more than a permit, interactive calls wait. A
-- background call is no probe within early after the end of a hold, and leaves one turn of a ramp to interactive calls.
local probe, lease, seen, noted, shelf, share, kept, early, soon = 10000000, 10000000, 10000000, 700000, 12500, 8, 100000, 50000, 500000
local S, dirty = {}, {}

local function moved(s, d)
  s.at, s.till, s.over, s.tail, s.pace, s.last = now, s.till - d, s.over - d, s.tail - d, s.pace - d, s.last - d
  s.wants, s.rush, s.owed = s.wants - d, s.rush - d, s.owed - d
  for k = 2, #s.out, 2 do s.out[k] = s.out[k] - d end
  for k = 1, #s.spare, 3 do s.spare[k] = s.spare[k] - d end
  if s.places then
    s.freed, s.resumed, s.eased, s.far = s.freed - d, s.resumed - d, (s.eased or 0) - d, s.far - d
    for id, t in pairs(s.places) do s.places[id] = t - d end
    for p, t in pairs(s.procs) do s.procs[p] = t - d end
    for _, w in ipairs(s.wait) do w[2], w[3] = w[2] - d, w[3] - d end
  end
end

-- read returns an error for the value of another program.
local function read(i)
  local raw, s = call('GET', KEYS[i])
  if not raw then
    s = {at = now, gen = 0, prev = 0, till = 0, over = 0, room = 0, out = {}, wants = 0, rush = 0, rushing = '', owed = 0, past = 0}
    s.tail, s.unit, s.last, s.mark, s.low, s.spare, s.pace = 0, 0, 0, now, {}, {}, 0
    if i == 1 then
      s.seq, s.places, s.freed, s.procs, s.wait = 0, {}, now, {}, {}
      s.lim, s.most, s.asked, s.won, s.soon, s.resumed, s.eased, s.far, s.ended = 0, 0, 0, 0, 0, 0, 0, 0, 0
    end
  elseif sub(raw, 1, 2) ~= 'g2' then
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

-- tidy gives up turns and places that take too long, and ends ramps whose time is over. Only a probe loses its place with its turn.
local used, procs = 0, 0
for i, s in ipairs(S) do
  if now < s.till and s.gen <= V.ended then
    s.till, s.over, dirty[i] = now, now + probe, true
  end
  if s.room > 0 and now >= s.till then
    while s.out[1] and s.out[2] <= now do
      if s.room == 1 then
        if V.places[s.out[1]] then V.places[s.out[1]], V.freed = nil, now end
        s.over = now + probe
      end
      table.remove(s.out, 1)
      table.remove(s.out, 1)
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

-- given numbers a slot, and notes what it has left.
local function given(s, left)
  local low = s.low
  while low[1] and low[#low - 1] >= left do
    low[#low] = nil
    low[#low] = nil
  end
  s.mark = s.mark + 1
  low[#low + 1], low[#low + 2] = left, s.mark
  if #low > 64 then
    low[3] = min(low[1], low[3])
    table.remove(low, 1)
    table.remove(low, 1)
  end
end

local op = {}

-- pass: the name of the process; InFlight; the round trip; the farthest slot; pass, late (calls take their slots when they ask again),
-- again or reserve; 1 if calls that do not pass do not wait; then for each group of calls that want the same: how many calls; 1 if they are
-- background calls; the id of the one that asks again, or 0; how many draws, and for each its key, its charge, how far ahead of the end of
-- the usage that can be, the charge of one permit, and the generation that the call has seen, if it asks again.
--
-- Reply: places in use, and in force; processes; then for each group: how many calls pass; of the first that does not, the draw that
-- refuses (0: none), when it can pass, or is to ask again, and why (1: slot, 2: hold, 3: a place or turn, 4: slot, but calls of the other
-- class wait for these, which are to ask again within soon, 5: these wait for them); and for each that passes its id, its slot, 1 if it has
-- a turn, 1 if it is a probe, the slot as a time, and for each draw the generation, and the number of its slot, or 0.
function op.pass()
  local name, inflight, trip, mode = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[7]
  local farthest, late, no, any = now + tonumber(ARGV[6]), mode == 'late', {}, false
  if late then mode = 'pass' end
  if V.lim >= V.most then
    V.lim, V.most = inflight, inflight
  else -- it is halved: the full number is the greatest that was asked for
    V.most = max(V.most, inflight)
  end
  if inflight > 0 then V.asked = inflight end
  local lim = min(V.lim, inflight)

  local function shut(D, own, bg)
    for k, d in ipairs(D) do
      local s, n = d.s, no[d.i]
      local turns = 2 * (bg and max(1, s.room - 1) or s.room)
      if n and (n[2] ~= 1 or d.charge > 0) and (n[3] == bg or bg and n[2] == 1 and s.past < share) then
        return k, n[1], n[3] ~= bg and n[2] == 1 and 5 or n[2]
      elseif now < s.till then
        return k, s.till - now, 2
      elseif mode == 'again' and s.gen ~= d.gen then
        return k, 1, 1
      elseif bg and s.room == 1 and now < s.till + early then
        return k, s.till + early - now, 3
      elseif s.room > 0 and (mode == 'again' and not find(s.out, own) or mode == 'pass' and #s.out >= turns) then
        return k, min(poll((s.out[#s.out] or now) - probe), max((s.out[2] or now) - now, 1000)), 3
      end
    end
  end

  -- yields returns why a call has to wait for calls of the other class, or how much farther ahead the slot of a background call can be.
  local function yields(D, at, bg)
    local lead = 0
    for k, d in ipairs(D) do
      local left = (bg and d.s.rush or d.s.owed) - now
      if d.charge > 0 and left > 0 then
        if bg ~= (d.s.past >= share) then return 0, k, min(max(at + d.charge - now, left - kept), left), 5 end
        if bg then lead = early end
      end
    end
    return lead
  end

  -- full keeps free places for as many interactive calls as wait, or if it is its turn for a background call.
  local function full(own, bg, n)
    if mode == 'again' then
      if V.places[own] then return nil end
      return 1, 1, 3
    end
    local mine, ahead, one, first, turn = nil, 0, 0, now + 500000, V.past >= share
    for _, w in ipairs(V.wait) do
      if w[1] == name and w[4] == bg then mine = w end
    end
    for _, w in ipairs(V.wait) do
      if w[4] == bg then
        if w ~= mine and (not mine or w[2] < mine[2]) then ahead = ahead + 1 end
      elseif bg and not turn and w[1] ~= name then
        ahead = ahead + w[5]
      elseif turn and not bg then
        one = 1
      end
    end
    if used + ahead + one < lim then return nil end
    if mine then
      mine[3], mine[5] = now, n
    elseif ARGV[8] == '0' and #V.wait < 128 then
      V.wait[#V.wait + 1] = {name, now, now, bg, n}
    end
    for _, t in pairs(V.places) do first = min(first, t) end
    dirty[1] = true
    return 1, max(1000, min(poll(V.freed), first - now)), 3
  end

  -- recount counts the usage by another charge of a permit: the number of permits stays, and the next slot comes after the last one.
  local function recount(d)
    local s = d.s
    if d.charge > 0 and s.unit ~= d.unit then
      local base = max(now, s.last)
      if s.unit > 0 and s.tail > base then
        s.tail = max(base + ceil((s.tail - base) / s.unit * d.unit), s.last + d.unit)
      end
      s.mark = s.mark + 1 -- no slot is the last one
      s.unit, s.low, s.spare, s.pace, dirty[d.i] = d.unit, {0, s.mark}, {}, 0, true
    end
  end

  -- earliest returns the first slot from a time on, and its index if it is a spare one.
  local function earliest(d, from)
    local at, which = max(from, d.s.tail - d.lead), nil
    for k = 1, #d.s.spare, 3 do
      local t = d.s.spare[k]
      if d.s.spare[k + 1] >= d.charge and t >= from and t < at then at, which = t, k end
    end
    return at, which
  end

  local function slot(D)
    local at, last, again = now, 1, true
    for k, d in ipairs(D) do
      if d.charge > 0 and late then
        local t = max(d.s.pace, d.s.tail - min(d.charge, 500000)) - d.lead
        if t > at then at, last = t, k end
      elseif d.charge > 0 then
        at = max(at, now + trip)
      end
    end
    if late then return at > now + 5000 and at or now, last, now + 5000 end
    while again do
      again = false
      for k, d in ipairs(D) do
        local t = at
        if mode == 'reserve' then t = max(t, d.s.till) end
        if d.charge > 0 then t = earliest(d, t) end
        if t > at then at, last, again = t, k, true end
      end
    end
    return at, last, mode == 'again' and huge or farthest
  end

  -- try returns why a call, the first of n, does not pass, or adds to the reply what it is granted.
  local function try(D, own, out, bg, n)
    local k, again, why
    if mode ~= 'reserve' then k, again, why = shut(D, own, bg) end
    if k then return k, again, why end
    local at, last, most = slot(D)
    local lead = 0
    if mode == 'pass' then lead, k, again, why = yields(D, at, bg) end
    if not k and at > most + lead then k, again, why = last, at - lead - now, 1 end
    if not k and inflight > 0 and mode ~= 'reserve' then k, again, why = full(own, bg, n) end
    if k then return k, again, why end
    local id, turn, first = own, 0, 0
    if mode ~= 'again' then
      V.seq = max(V.seq + 1, now)
      id = V.seq
    end
    local r = #out
    for k = 1, 5 + 2 * #D do out[r + k] = 0 end
    for k, d in ipairs(D) do
      local s = d.s
      if late and d.charge > 0 then
        s.pace, dirty[d.i] = max(s.pace, now - shelf) + d.charge, true
      elseif d.charge > 0 then
        local _, which = earliest(d, at)
        if which then
          table.remove(s.spare, which)
          table.remove(s.spare, which)
          out[r + 5 + 2 * k], dirty[d.i] = table.remove(s.spare, which), true
        elseif mode ~= 'reserve' or at - max(now + trip, s.till, s.tail - d.lead) < shelf then -- or it is taken when it is sent
          given(s, max(0, s.tail - at))
          s.tail, s.last, dirty[d.i] = max(s.tail, at) + d.charge, max(s.last, at), true
          out[r + 5 + 2 * k] = s.mark
        end
      end
      if d.charge > 0 and mode == 'pass' then
        s.past = bg and max(0, s.past - share) or now < s.wants and min(s.past + 1, share + floor(kept / d.charge)) or 0
        if bg then s.wants, s.owed = max(s.wants, now + kept), 0 end
      end
      if s.room > 0 and mode ~= 'reserve' then
        turn = 1
        if mode == 'pass' then
          if s.room == 1 then first = 1 end
          s.out[#s.out + 1], s.out[#s.out + 2] = id, now + probe
          dirty[d.i], dirty[1] = true, true -- the id is used
        end
      end
      out[r + 4 + 2 * k] = s.gen
    end
    out[r + 1], out[r + 2], out[r + 3], out[r + 4], out[r + 5] = id, at - now, turn, first, at
    if inflight > 0 and mode ~= 'reserve' then
      if mode == 'pass' then
        used = used + 1
        local others = false
        for k = #V.wait, 1, -1 do
          local w = V.wait[k]
          others = others or w[4]
          if w[1] == name and w[4] == bg then table.remove(V.wait, k) end
        end
        V.past = bg and max(0, V.past - share) or others and min(V.past + 1, 8 * share) or 0
      end
      V.places[id], dirty[1] = now + lease, true
    end
  end

  -- note keeps in the value that calls of a class wait for a slot. It reports whether they have to ask again within soon, as those of the
  -- other class wait for them: interactive calls, and at their turn background calls that cost more than a permit.
  local function note(d, again, bg)
    local s, t = d.s, now + again + kept
    local near, first = min(t, now + soon + kept), not bg and now < s.wants or bg and s.past >= share and d.charge > d.unit
    if bg and s.wants < t - kept / 2 then s.wants, dirty[d.i] = t, true end
    if bg and first and s.owed < near - kept / 2 then
      s.owed, dirty[d.i] = near, true
    elseif not bg and first and s.rush < near - kept / 2 then
      s.rush, s.rushing, dirty[d.i] = near, name, true
    end
    return first
  end

  local reply, a = {}, 9
  while ARGV[a] do
    local n, bg, own, D, out, passed = tonumber(ARGV[a]), ARGV[a + 1] == '1', tonumber(ARGV[a + 2]), {}, {}, 0
    for k = 1, tonumber(ARGV[a + 3]) do
      local b = a + 1 + 5 * k
      local i = tonumber(ARGV[b - 2])
      D[k] = {
        i = i, s = S[i], charge = tonumber(ARGV[b - 1]), lead = tonumber(ARGV[b]), unit = tonumber(ARGV[b + 1]), gen = tonumber(ARGV[b + 2]),
      }
      recount(D[k])
    end
    a = a + 4 + 5 * #D
    local k, again, why
    while passed < n do
      k, again, why = try(D, own, out, bg, n - passed)
      if k then break end
      passed = passed + 1
    end
    any = any or passed > 0
    if k then
      local slotless, waits = why == 1 or why == 5, mode == 'pass' and ARGV[8] == '0'
      no[D[k].i] = {again, slotless and 1 or why, bg}
      if slotless and waits and note(D[k], again, bg) and why == 1 then why = 4 end
      for _, d in ipairs(D) do -- a background call that waits for a place keeps its turn
        if why == 3 and k == 1 and bg and waits and d.charge > 0 then note(d, again, bg) end
      end
    end
    for _, d in ipairs(D) do
      if not k and not bg and mode == 'pass' and d.charge > 0 and d.s.rushing == name then d.s.rush = 0 end
    end
    for _, v in ipairs({passed, k or 0, again or 0, why or 0}) do reply[#reply + 1] = v end
    for _, v in ipairs(out) do reply[#reply + 1] = v end
  end
  if any then saw(name) end
  return {used, lim, procs, unpack(reply)}
end

-- grow counts a success, after enough of which there are more places.
local function grow()
  local rounds, step = 16, 1
  if V.soon == 1 then rounds, step = 1, max(1, floor(V.lim / 16)) end
  V.won = V.won + 1
  if V.won >= rounds * V.lim and V.lim < V.most then
    V.lim, V.won = min(V.most, V.lim + step), 0
  end
end

-- settle counts a slot at another cost. It gives back no more than what all slots after it have left: with less usage before them, they
-- would not have been earlier.
local function settle(s, mark, at, charge, cost, most, unit)
  if s.unit > 0 and s.unit ~= unit then
    charge, cost, most = ceil(charge / unit * s.unit), ceil(cost / unit * s.unit), ceil(most / unit * s.unit)
  end
  local low, more, k = s.low, cost - charge, 1
  if more <= 0 and mark > s.mark then return end -- the value has expired, and the clock went back
  while low[k] and low[k + 1] <= mark do k = k + 2 end
  for i = k, #low, 2 do more = max(more, -low[i]) end
  for i = k, #low, 2 do low[i] = low[i] + min(more, 0) end
  if more > 0 then
    s.tail = max(s.tail, min(at, now) + charge) -- the value can be a new one
    local room = max(0, min(at, now) + most - s.tail)
    if most > 0 and room < more then -- after most, the vendor has forgotten it, and all before it
      more = room
      given(s, 0)
    end
  end
  s.tail, s.pace = s.tail + more, s.pace + more
end

-- back takes back a slot, unless cost tells at what it is to be counted: if it is the last one, the usage is reduced by it; otherwise a
-- later call can use it.
local function back(i, mark, at, charge, cost, most, unit)
  local s = S[i]
  if mark == 0 or cost < 0 and at <= now and mark ~= s.mark then return end
  if cost >= 0 then
    settle(s, mark, at, charge, cost, most, unit)
  elseif mark == s.mark then
    s.tail, s.mark = s.tail - charge, mark - 1
  elseif #s.spare < 192 then
    s.spare[#s.spare + 1], s.spare[#s.spare + 2], s.spare[#s.spare + 3] = at, charge, mark
  end
  for k = #s.spare - 2, 1, -3 do
    if s.spare[k] <= now then
      for _ = 1, 3 do table.remove(s.spare, k) end
    end
  end
  if cost < 0 then s.rush = 0 end -- it may be long before the calls that wait ask for this slot
  dirty[i] = true
end

-- hold begins or extends the hold of a key: for how long, the generation of the attempt that was refused (-1: it is not known), and
-- whether to halve the places (1), or only that (2), or those in use if these are fewer.
local function hold(i, length, gen, halve)
  local s, till = S[i], now + length
  if halve == 2 then
    if now > V.eased then
      V.lim, V.won, V.soon = max(1, floor(min(V.lim, V.asked, used) / 2)), 0, 0
      V.eased = now + 1000000
      V.resumed, dirty[1] = max(V.resumed, V.eased), true
    end
    return
  end
  local force = now < s.till
  if gen >= 0 and gen < s.gen and not (force and gen >= s.prev) then return end -- it is about a hold that is over
  if not force then
    s.prev, s.gen, s.till, s.room, s.out, dirty[i] = s.gen, max(s.gen + 1, now, V.ended + 1), till, 1, {}, true
    V.seq = max(V.seq, s.gen) -- so that ended can be after it, also if the clock goes back
  end
  if halve == 1 and now > V.resumed then
    local lim = min(V.lim, V.asked)
    V.soon = (now - V.resumed >= probe or used <= lim / 2) and 1 or 0
    if lim > 0 then V.lim, V.won = max(1, floor(lim / 2)), 0 end
    V.resumed, dirty[1] = till, true
  end
  if till >= s.till then
    s.till, s.over, dirty[i] = till, till + probe, true
    V.far, dirty[1] = max(V.far, s.over), true
  end
end

-- report: the name of the process, or '' if it does not count as seen; 1 if it is gone; how many holds, and for each its key, and what hold
-- has; how many attempts that end, and for each its id, its slot as a time, 1 to end its turns, 1 to end its place, 1 if it has succeeded,
-- how many draws, and for each its key, its generation, its charge, that of a permit, the number of its slot, or 0, what that has cost, or
-- -1 if it is given back, and how far after its slot the usage can end by that, or 0; then the ids of places to renew.
-- Reply: places in use, and in force; processes; then for each hold how long its key is held.
function op.report()
  local a, held = 4, {}
  local function arg()
    a = a + 1
    return tonumber(ARGV[a])
  end
  for _ = 1, arg() do
    local i = arg()
    hold(i, arg(), arg(), arg())
    held[#held + 1] = max(0, S[i].till - now)
  end
  for _ = 1, arg() do
    local id, at, turn, place, ok, fresh = arg(), arg(), arg() == 1, arg() == 1, arg() == 1, true
    for _ = 1, arg() do
      local i, gen, charge, unit, mark, cost, most = arg(), arg(), arg(), arg(), arg(), arg(), arg()
      local s = S[i]
      fresh = fresh and s.gen == gen
      local k = turn and find(s.out, id)
      if k then
        table.remove(s.out, k)
        table.remove(s.out, k)
        dirty[i] = true
      end
      if ok and (k or turn and s.gen == gen and s.room == 1) then -- the late answer of a probe that was given up counts too
        s.room, dirty[i] = s.room + 1, true
      end
      back(i, mark, at, charge, cost, most, unit)
    end
    if place and V.places[id] then
      V.places[id], V.freed, dirty[1] = nil, now, true
      used = used - 1
      if ok and fresh then grow() end
    end
  end
  for k = a + 1, #ARGV do
    local id = tonumber(ARGV[k])
    if V.places[id] then V.places[id], dirty[1] = now + lease, true end
  end
  if ARGV[4] == '1' then
    V.procs[ARGV[3]], dirty[1] = nil, true
  elseif ARGV[3] ~= '' then
    saw(ARGV[3])
  end
  return {used, V.lim, max(1, procs), unpack(held)}
end

-- resume ends the holds of all KEYS but the first; if ARGV[3] is 1, it ends all holds of the vendor.
function op.resume()
  local all = ARGV[3] == '1'
  if all then V.ended, V.resumed, dirty[1] = max(now, V.seq), now, true end
  for i = all and 1 or 2, #S do
    local s = S[i]
    if now < s.till then
      s.till, s.over, dirty[i] = now, now + probe, true
      V.resumed, dirty[1] = now, true
    end
  end
  return {0}
end

local reply = op[ARGV[2]]()
for i in pairs(dirty) do
  local s = S[i]
  local last = max(s.till, s.tail, s.pace, s.wants, s.rush, s.owed, s.room > 0 and s.over or 0)
  for k = 2, #s.out, 2 do last = max(last, s.out[k] + probe) end -- another turn follows one that is given up
  if i == 1 then
    last = max(last, s.far)
    for _, t in pairs(s.places) do last = max(last, t) end
    for _, t in pairs(s.procs) do last = max(last, t + seen) end
    for _, w in ipairs(s.wait) do last = max(last, w[3] + noted) end
  end
  s.at = now
  if last > now then
    call('SET', KEYS[i], 'g2' .. cmsgpack.pack(s), 'PX', ceil((last - now) / 1000))
  else
    call('DEL', KEYS[i])
  end
end
return reply
