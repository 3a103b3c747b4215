-- The language server's configuration. It works alone with `vim.lsp.enable('roo_lsp')`, as plain LSP; where
-- the plugin is installed too, plugin/roo.lua adds the typed protocol to it.

--- Attaches the client to a buffer with a file of its workspace.
---@param client vim.lsp.Client
---@param buffer integer
local function attach(client, buffer)
  local config = vim.lsp.config.roo_lsp
  local is_file = vim.bo[buffer].buftype == '' and vim.api.nvim_buf_get_name(buffer) ~= ''
  local is_wanted = not config.filetypes or vim.list_contains(config.filetypes, vim.bo[buffer].filetype)
  if not is_file or not is_wanted or not vim.api.nvim_buf_is_loaded(buffer) then
    return
  end
  local function on_dir(root)
    if root == client.root_dir and not client:is_stopped() then
      vim.lsp.buf_attach_client(buffer, client.id)
    end
  end
  if type(config.root_dir) == 'function' then
    config.root_dir(buffer, on_dir)
  else
    on_dir(config.root_dir)
  end
end

---@type vim.lsp.Config
return {
  cmd = { 'roo-lsp' },
  -- No filetypes: agents work on every file, and a file that the server doesn't see can't be edited in its
  -- buffer. A workspace without a marker is the current directory, for without a folder every path asks.
  root_dir = function(buffer, on_dir)
    local markers = { '.roo', '.roomodes', '.orchestration', '.git' }
    on_dir(vim.fs.root(buffer, { markers }) or vim.fn.getcwd())
  end,
  init_options = { roo = {} },
  -- vim.lsp.enable() attaches on FileType, which doesn't come for files whose type Neovim doesn't know.
  on_init = function(client)
    vim.iter(vim.api.nvim_list_bufs()):each(function(buffer)
      attach(client, buffer)
    end)
    vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile', 'BufFilePost', 'BufWritePost' }, {
      callback = function(event)
        if client:is_stopped() then
          return true
        end
        attach(client, event.buf)
      end,
    })
  end,
}
