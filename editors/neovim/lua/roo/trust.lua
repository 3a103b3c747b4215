-- Trust: whether what the workspace brings may steer agents. A task doesn't wait for it.

local ask = require('roo.ask')
local client = require('roo.client')

local M = {}

--- What waits for a decision, as choices.
---@param report table What `roo/trust/get` answers.
---@return {text: string, grant: table}[]
local function open_decisions(report)
  local decisions = {}
  if not report.trusted and #report.brings > 0 then
    table.insert(decisions, {
      text = 'Trust this workspace: ' .. table.concat(report.brings, ', '),
      grant = vim.empty_dict(),
    })
  end
  for _, pending in ipairs(report.pendingApprovals) do
    table.insert(decisions, {
      text = ('Allow the current version of %s: %s'):format(pending.path, table.concat(pending.widens, ', ')),
      grant = { path = pending.path, digest = pending.digest },
    })
  end
  return decisions
end

--- Says once for each server that there is something to decide.
---@param found vim.lsp.Client
function M.look(found)
  found:request('roo/trust/get', vim.empty_dict(), function(_, report)
    if report and #open_decisions(report) > 0 then
      client.notify('this workspace contains files that would steer agents (:Roo trust)', vim.log.levels.WARN)
    end
  end)
end

--- Lets the user decide.
function M.ask()
  client.request('roo/trust/get', vim.empty_dict(), function(report)
    local decisions = open_decisions(report)
    if #decisions == 0 then
      client.notify(report.trusted and 'this workspace is trusted' or 'this workspace has no files that steer agents')
      return
    end
    -- The harmless one first.
    table.insert(decisions, 1, { text = 'Later' })
    ask.select(decisions, {
      prompt = 'May this steer agents?',
      kind = 'roo_trust',
      format_item = function(decision)
        return decision.text
      end,
    }, function(decision)
      if decision and decision.grant then
        client.request('roo/trust/grant', decision.grant, function()
          client.notify('granted: ' .. decision.text)
        end)
      end
    end)
  end)
end

return M
