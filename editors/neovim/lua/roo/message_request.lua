-- `window/showMessageRequest`: the server's questions where the typed protocol is off. The handler waits in a
-- coroutine, so that the editor's loop goes on.

local M = {}

--- Shows the choices, one request after the other, and gives the chosen action.
---@param params lsp.ShowMessageRequestParams
---@return lsp.MessageActionItem|userdata
function M.answer(params)
  local actions = params.actions or {}
  local thread, is_main = coroutine.running()
  if not thread or is_main then
    return vim.NIL
  end
  require('roo.ask').select(actions, {
    prompt = params.message,
    kind = 'lsp_message',
    format_item = function(action)
      return action.title
    end,
  }, function(choice)
    -- A select that answers at once must not resume what hasn't paused yet.
    vim.schedule(function()
      coroutine.resume(thread, choice or vim.NIL)
    end)
  end)
  return coroutine.yield()
end

return M
