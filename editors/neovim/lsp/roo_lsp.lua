-- The language server's configuration. It works alone with `vim.lsp.enable('roo_lsp')`, as plain LSP; where
-- the plugin is installed too, plugin/roo.lua adds the typed protocol to it.

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
}
