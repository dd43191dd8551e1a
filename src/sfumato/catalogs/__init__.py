"""Tables as their owner declares them, once: privacy units, types, bounds, domains, limits, foreign keys.

Plain frozen data, read from a TOML file or a dict, before any source is opened. (Not `catalog/`:
`sfumato.catalog` is the function, which would be the folder after an import of it.)
"""
