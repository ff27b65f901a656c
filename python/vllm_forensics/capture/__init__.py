"""Everything that touches the machine: files, processes, gdb."""
