"""Many devices: slots in blocks that are always computed together, blocks on workers.

A slot's last bits depend on which slots are in the call with it. So records follow from the blocks,
and workers only decide where a block is computed: in this process, in one process a device, or in
Ray actors.
"""
