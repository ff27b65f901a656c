"""C++'s mangled names."""
