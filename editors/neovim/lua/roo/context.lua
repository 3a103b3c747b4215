-- The context of a task: how much of its model's window the next request takes, and what was shortened to fit.

local ask = require('roo.ask')
local client = require('roo.client')
local tokens = require('roo.winbar').tokens

local M = {}

local parts = { 'system', 'tools', 'pinned', 'files', 'conversation' }
local methods = { placeholders = 'old results left out', summary = 'summarized', outline = 'listed in short' }

--- The size of a request by its parts, in words.
---@param meter? table As `roo/context/get` has it.
---@return string
function M.describe(meter)
  if not meter then
    return 'the size of the context is not known before the first answer'
  end
  local said = {}
  for _, part in ipairs(parts) do
    if (meter[part] or 0) > 0 then
      table.insert(said, ('%s %s'):format(part, tokens(meter[part])))
    end
  end
  local of = meter.window and (' of %s'):format(tokens(meter.window)) or ''
  return ('context %s%s tokens: %s'):format(tokens(meter.used), of, table.concat(said, ', '))
end

--- Says how large the context is, and lets the user undo what was shortened.
---@param request roo.Request
---@param task_id string
function M.show(request, task_id)
  client.request_in(request.folder, 'roo/context/get', { taskId = task_id }, function(result)
    local said = M.describe(result.context)
    local shortenings = vim.tbl_filter(function(one)
      return not one.restored
    end, result.shortenings)
    if #shortenings == 0 then
      client.notify(said)
      return
    end
    ask.select(shortenings, {
      prompt = said .. '. Undo:',
      kind = 'roo_shortening',
      format_item = function(one)
        local at = os.date('%Y-%m-%d %H:%M', math.floor(one.at / 1000))
        local change = ('%s → %s tokens'):format(tokens(one.tokensBefore), tokens(one.tokensAfter))
        return ('%s, %s: %s'):format(at, methods[one.method] or one.method, change)
      end,
    }, function(one)
      if one then
        client.request_in(request.folder, 'roo/context/restore', { taskId = task_id, seq = one.seq })
      end
    end)
  end)
end

return M
