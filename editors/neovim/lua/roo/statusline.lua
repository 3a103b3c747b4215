-- What the status line shows: what the agents do, and how much waits for the user.

local requests = require('roo.requests')

local M = {}

local live = { running = true, waiting = true, paused = true }

--- A few words, or nothing when no agent is at work.
---@return string
function M.text()
  if not requests.is_connected() then
    return 'roo: no server'
  end
  local running, waiting, last = 0, 0, nil
  for _, request in ipairs(requests.all()) do
    if live[request.state] and requests.is_connected(request) then
      running = running + 1
      waiting = waiting + request:waiting()
      last = last or request
    end
  end
  if not last then
    local request = requests.current()
    return request and request.state == 'interrupted' and 'roo: interrupted' or ''
  end
  local who = ''
  for _, node in ipairs(last.nodes) do
    if node.state == 'running' or node.state == 'waiting' then
      who = ('%s %s'):format(node.emoji, node.mode)
    end
  end
  local parts = { 'roo: ' .. who }
  if running > 1 then
    table.insert(parts, ('%d tasks'):format(running))
  end
  if waiting > 0 then
    table.insert(parts, ('%d waiting for you'):format(waiting))
  end
  -- The text goes into a status line, where a % begins an item.
  return (table.concat(parts, ', '):gsub('%%', '%%%%'))
end

return M
