"""Lua scripts of `RedisStore`: one atomic script per operation that reads before it writes.

All keys of a folder share a hash tag, so that a cluster stores them on one node. ``index`` holds the sorted
names of a folder. ``expiry`` holds the same names by expiry time, because Redis removes expired values but
not their names. A retried command must not run twice: the result of a non-idempotent command is stored under
``once`` for ``remembered`` seconds. A value of 0 stores no result.
"""

from __future__ import annotations

from typing import Final

_COMMON: Final = """
local function now() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end
local function kept(once, seconds) if seconds ~= '0' then return redis.call('GET', once) end end
local function keep(once, seconds, answer)
  if seconds ~= '0' then redis.call('SET', once, answer, 'EX', seconds) end
  return answer
end
local function sweep(index, expiry)
  local over = redis.call('ZRANGEBYSCORE', expiry, '-inf', now(), 'LIMIT', 0, 20)
  if #over > 0 then redis.call('ZREM', index, unpack(over)) redis.call('ZREM', expiry, unpack(over)) end
end
local function set(value_key, index, expiry, name, value, ttl)
  sweep(index, expiry)
  redis.call('ZADD', index, 0, name)
  if ttl == '' then
    redis.call('SET', value_key, value)
    redis.call('ZREM', expiry, name)
    redis.call('PERSIST', index)
  else
    redis.call('SET', value_key, value, 'PX', ttl)
    redis.call('ZADD', expiry, now() + ttl, name)
  end
  local lasts = redis.call('ZCARD', index) > redis.call('ZCARD', expiry)
  for _, key in ipairs({index, expiry}) do
    local left = redis.call('PTTL', key)
    if not lasts and (left < 0 or left < tonumber(ttl)) then redis.call('PEXPIRE', key, ttl + 1000) end
  end
end
"""

PUT: Final = (
    _COMMON
    + """
local name, value, ttl, only_new, expect, fence, remembered = unpack(ARGV)
local done = kept(KEYS[5], remembered)
if done then return tonumber(done) end
if only_new == '1' and redis.call('EXISTS', KEYS[1]) == 1 then return tonumber(keep(KEYS[5], remembered, 0)) end
if expect ~= '' and redis.call('GET', KEYS[1]) ~= string.sub(expect, 2) then
  return tonumber(keep(KEYS[5], remembered, 0))
end
if fence ~= '' then
  local held = redis.call('GET', KEYS[4])
  if not held or string.match(held, '^%d+') ~= fence then return 0 end
end
set(KEYS[1], KEYS[2], KEYS[3], name, value, ttl)
return tonumber(keep(KEYS[5], remembered, 1))
"""
)

DELETE: Final = (
    _COMMON
    + """
local done = kept(KEYS[4], ARGV[2])
if done then return tonumber(done) end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return tonumber(keep(KEYS[4], ARGV[2], redis.call('DEL', KEYS[1])))
"""
)

APPEND: Final = (
    _COMMON
    + """
local head, value, ttl, most, remembered = unpack(ARGV)
local done = kept(KEYS[3], remembered)
if done then return done end
local last = redis.call('ZREVRANGEBYLEX', KEYS[1], '+', '-', 'LIMIT', 0, 1)[1]
local name = string.format('%016d', (last and tonumber(last) or now()) + 1)
set(head .. name, KEYS[1], KEYS[2], name, value, ttl)
local more = redis.call('ZCARD', KEYS[1]) - most
if more > 0 then
  for _, old in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], '-', '+', 'LIMIT', 0, more)) do
    redis.call('DEL', head .. old)
    redis.call('ZREM', KEYS[1], old)
    redis.call('ZREM', KEYS[2], old)
  end
end
return keep(KEYS[3], remembered, name)
"""
)

SCAN: Final = """
local found, after, most = {}, ARGV[2], tonumber(ARGV[3])
while #found < 2 * most do
  local names = redis.call('ZRANGEBYLEX', KEYS[1], after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, most)
  if #names == 0 then break end
  for _, name in ipairs(names) do
    local value = redis.call('GET', ARGV[1] .. name)
    if value and #found < 2 * most then found[#found + 1] = name found[#found + 1] = value end
    after = name
  end
end
return found
"""

LEASE: Final = """
local held = redis.call('GET', KEYS[1])
local number, owner
if held then number, owner = string.match(held, '^(%d+) (.*)$') end
if held and owner ~= ARGV[1] then return '0' end
if ARGV[2] == '0' then redis.call('DEL', KEYS[1]) return '1' end
if not held then
  local t = redis.call('TIME')
  number = string.format('%.0f', t[1] * 1000000 + t[2])
end
redis.call('SET', KEYS[1], number .. ' ' .. ARGV[1], 'PX', ARGV[2])
return number
"""
