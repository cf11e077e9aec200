-- Replaces a leased batch by its outcome.
--
-- ARGV[2]   the ID of the batch
-- ARGV[3]   the number of leases that it had
-- ARGV[4]   how many failed records the group keeps
-- ARGV[5]   the error, or ''
-- ARGV[6..] how many records have failed, and their places; how many parts there are, and of each: its
--           ID, the time until it waits, 1 if it counts as an attempt, its losses, how many records
--           it has, and their places; and for each result: the place of the record, its kind, and its text
--
-- Places count from 1. Reply: whether it was still leased.
local id = ARGV[2]
local b = call('HMGET', base .. 'b:' .. id, 'o', 'd', 'l', 'a', 'x')
local opt = b[1]
if b[2] ~= ARGV[3] or b[3] == '0' then
  if tonumber(b[2] or 0) > tonumber(ARGV[3]) and tonumber(b[5] or 0) > 0 then
    relax()
    call('HINCRBY', base .. 'b:' .. id, 'x', -1) -- the process has not ended
  end
  return {0}
end
local entries, at = call('LRANGE', base .. 'l:' .. id, 0, -1), 6
local left = {} -- whether a record stays, by its place

-- Reads places, and checks them before anything is written.
local function places()
  local found, n = {}, tonumber(ARGV[at])
  for i = at + 1, at + n do
    local place = tonumber(ARGV[i])
    if not entries[place] or left[place] then
      error('a settlement names a record that the batch does not have, or one twice')
    end
    left[place] = true
    found[#found + 1] = place
  end
  at = at + n + 1
  return found
end

local failed, batches, named = places(), {}, {}
local count = tonumber(ARGV[at])
at = at + 1
for i = 1, count do
  local part = {id = ARGV[at], after = tonumber(ARGV[at + 1]), attempt = tonumber(ARGV[at + 2]), losses = ARGV[at + 3]}
  at = at + 4
  part.places = places()
  if named[part.id] or part.id ~= id and call('EXISTS', base .. 'b:' .. part.id) == 1 then
    error('a settlement has the ID of another batch')
  end
  named[part.id], batches[i] = true, part
end
for n = at, #ARGV, 3 do
  if not entries[tonumber(ARGV[n])] then
    error('a settlement has the result of a record that the batch does not have')
  end
end

local g, t, i, w = base .. 'g:' .. opt, base .. 't:' .. opt, base .. 'i:' .. opt, base .. 'w:' .. opt
local ids = {}
for n, entry in ipairs(entries) do
  local _, _, name = parts(entry)
  ids[n] = name
end

relax()

-- Sends the results.
for n = at, #ARGV, 3 do
  local addresses = call('HGET', w, ids[tonumber(ARGV[n])])
  if addresses then
    answer(addresses, ARGV[n + 1], ARGV[n + 2])
  end
end

call('DEL', base .. 'b:' .. id, base .. 'l:' .. id)
call('ZREM', t, id)
call('HINCRBY', g, 'flight', 0 - #entries)

-- Keeps the failed records, without keys.
local kept = {}
for n, place in ipairs(failed) do
  local arrival, _, name = parts(entries[place])
  local text = call('HGET', i, name)
  kept[n] = entries[place]
  if text then -- its payload can have been replaced
    kept[n] = int(arrival) .. ' ' .. select(3, about(text)) .. ' ' .. #name .. ':' .. name
  end
end
push(base .. 'f:' .. opt, kept)
local over = call('LLEN', base .. 'f:' .. opt) - ARGV[4]
for _ = 1, over do
  local _, _, name = parts(call('LPOP', base .. 'f:' .. opt))
  call('HDEL', base .. 'v:' .. opt, name)
  call('HINCRBY', g, 'dropped', 1)
end

-- Makes the parts.
for n, part in ipairs(batches) do
  local list = {}
  for k, place in ipairs(part.places) do
    list[k] = entries[place]
  end
  if #list > 0 then
    push(base .. 'l:' .. part.id, list)
    call('HSET', base .. 'b:' .. part.id, 'o', opt, 'd', part.id == id and b[2] or 0, 'a', b[4] + part.attempt, 'l', 0, 'x', part.losses)
    call('ZADD', t, int(now + part.after + (part.after > 0 and n - 1 or n - #batches)), part.id) -- in this order
    call('HINCRBY', g, 'retry', #list)
  end
end

-- Forgets the records that are done.
local ended, done = {}, {}
for _, place in ipairs(failed) do
  ended[#ended + 1] = ids[place]
end
for n, name in ipairs(ids) do
  if not left[n] then
    ended[#ended + 1], done[#done + 1] = name, name
  end
end
release(opt, ended, true)
drop(w, ended)
drop(base .. 'v:' .. opt, done)
call('HINCRBY', method, 'n', 0 - #ended)
if ARGV[5] ~= '' then
  call('HSET', g, 'err', ARGV[5], 'errat', int(now))
end
place(opt)
return {1}
