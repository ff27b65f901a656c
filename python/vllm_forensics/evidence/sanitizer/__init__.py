"""Reads the reports of the sanitizers out of any log; see `scan.parse_sanitizer_log`."""
