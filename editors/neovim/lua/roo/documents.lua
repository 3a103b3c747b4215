-- Files between the editor and the disk: saves buffers for the server, and reloads what was changed on disk.

local client = require('roo.client')

local M = {}

--- Serves `roo/document/save`: saves the buffers of these documents.
---@param params {uris: string[]}
---@return {saved: string[]}
function M.save(params)
  local saved = {}
  for _, uri in ipairs(params.uris) do
    local buffer = vim.fn.bufnr(vim.uri_to_fname(uri))
    if buffer ~= -1 and vim.api.nvim_buf_is_loaded(buffer) then
      local ok, problem = pcall(vim.api.nvim_buf_call, buffer, function()
        if vim.bo[buffer].modified then
          vim.cmd('silent write')
        end
      end)
      if ok and not vim.bo[buffer].modified then
        table.insert(saved, uri)
      else
        client.notify(('%s was not saved: %s'):format(vim.fn.bufname(buffer), problem or ''), vim.log.levels.WARN)
      end
    end
  end
  return { saved = saved }
end

--- Reads a file again that was changed on disk, or all of them; what the user has changed stays.
---@param uri? string
function M.reload(uri)
  local buffer = uri and vim.fn.bufnr(vim.uri_to_fname(uri))
  if buffer == -1 then
    return
  end
  vim.schedule(function()
    if buffer == nil or vim.api.nvim_buf_is_loaded(buffer) then
      pcall(vim.cmd, 'silent checktime' .. (buffer and ' ' .. buffer or ''))
    end
  end)
end

return M
